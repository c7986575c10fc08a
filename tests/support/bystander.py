"""A second session of Postgres that holds one side still, and what tests ask about the sessions of nodes."""

import contextlib

import psycopg2

from support.waiting import PATIENCE_S, wait_until


class Bystander:
    """A session with an open transaction. What it has locked is free again after release()."""

    def __init__(self, database_url):
        self._connection = psycopg2.connect(database_url)

    def run(self, statement, parameters=()):
        with self._connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else None

    def release(self):
        self._connection.rollback()

    def close(self):
        self._connection.close()


@contextlib.contextmanager
def holding(database_url, statement, parameters=()):
    """What `statement` locks stays locked until .release(), at the latest until the end of the block."""
    bystander = Bystander(database_url)
    try:
        bystander.run(statement, parameters)
        yield bystander
    finally:
        bystander.close()


# No write transaction of a node gets past its first statement, the insert of its batch id.
HOLD_ALL_WRITES = "LOCK TABLE batches IN EXCLUSIVE MODE"


def one_value(db, query, parameters=()):
    with db.cursor() as cursor:
        cursor.execute(query, parameters)
        row = cursor.fetchone()
    return row[0] if row else None


def all_rows(db, query, parameters=()):
    with db.cursor() as cursor:
        cursor.execute(query, parameters)
        return cursor.fetchall()


def waiting_sessions(db):
    """The sessions of this database that wait for a lock."""
    return [pid for pid, in all_rows(db, """
        SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()""")]


def await_waiting(db, count=1, timeout=PATIENCE_S):
    """Waits until so many sessions wait for a lock; their pids."""
    return wait_until(lambda: len(pids := waiting_sessions(db)) >= count and pids, timeout, every=0.005,
                      what=f"{count} sessions wait for a lock")


@contextlib.contextmanager
def trigger(db, name, table, when, body, deferred=False):
    """A trigger on `table` while the block runs: when = "BEFORE INSERT", body = plpgsql statements."""
    kind, tail = ("CONSTRAINT TRIGGER", "DEFERRABLE INITIALLY DEFERRED") if deferred else ("TRIGGER", "")
    execute(db, f"""
        CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN {body} END $body$;
        CREATE {kind} {name} {when} ON {table} {tail} FOR EACH ROW EXECUTE FUNCTION {name}()""")
    try:
        yield
    finally:
        execute(db, f"DROP TRIGGER {name} ON {table}; DROP FUNCTION {name}()")


CLOSE_GATE = "SELECT FROM gate FOR UPDATE"


@contextlib.contextmanager
def gate(db, deferred=True):
    """Whoever inserts a line of a hold passes a row that holding(url, CLOSE_GATE) may lock; deferred: within COMMIT.

    It may be closed for less than lock_timeout (500 ms) and its repeats.
    """
    execute(db, "CREATE TABLE gate (id int PRIMARY KEY); INSERT INTO gate VALUES (1)")
    try:
        body = "PERFORM FROM gate FOR SHARE; RETURN NULL;"
        with trigger(db, "at_gate", "seat_holds", "AFTER INSERT", body, deferred):
            yield
    finally:
        execute(db, "DROP TABLE gate")


def execute(db, statement, parameters=None):
    with db.cursor() as cursor:
        cursor.execute(statement, parameters)
