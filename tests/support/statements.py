"""How often a Postgres ran what: pg_stat_statements, for tests that count what a crowd costs.

The server must be started with PRELOADED among its settings.
"""

from support.bystander import all_rows, execute

PRELOADED = {"shared_preload_libraries": "pg_stat_statements"}

# Words that only this statement has. Texts in the view have their constants replaced.
HOLD_SEATS = "%seat_holds%takeover%"
# Reads of a seat's truth: whatever looks into seats or their holds, and changes nothing.
READS_OF_SEATS = "%FROM seat%"


def prepare(db):
    execute(db, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")


def forget(db):
    execute(db, "SELECT pg_stat_statements_reset()")


def calls(db, like, unlike="%INSERT INTO%"):
    """{the statement's first line that says something: how often it ran}, of the nodes' statements alone."""
    return {query: calls for query, calls in all_rows(db, """
        SELECT query, calls FROM pg_stat_statements
        WHERE query LIKE %s AND query NOT LIKE %s AND query NOT LIKE '%%pg_stat_statements%%'""", (like, unlike))}


def count(db, like, unlike="no such words"):
    return sum(calls(db, like, unlike).values())
