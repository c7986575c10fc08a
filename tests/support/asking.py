"""A server asked or told something, on a session of its own that ends at once: nothing of ours stays in its way."""

import psycopg2


def ask(url, statement):
    """The first value of the answer, or None where there is none."""
    connection = psycopg2.connect(url, connect_timeout=10)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()[0] if cursor.description else None
    finally:
        connection.close()


def end_all_sessions(url):
    """Every client's but this one; how many there were."""
    return ask(url, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
