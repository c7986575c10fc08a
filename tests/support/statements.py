"""How often a Postgres ran which statement of the nodes: pg_stat_statements, for tests that count what a crowd costs.

The server must be started with PRELOADED among its settings. Statements go by the names of db/statements, which
stand in the comment that each begins with.
"""

import re

from support.bystander import all_rows, execute

PRELOADED = {"shared_preload_libraries": "pg_stat_statements"}
NAME = re.compile(r"^-- (\w+) - ")


def prepare(db):
    execute(db, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")


def forget(db):
    execute(db, "SELECT pg_stat_statements_reset()")


def calls(db):
    """{name of a statement: how often it ran since forget()}"""
    counts = {}
    for text, count in all_rows(db, "SELECT query, calls FROM pg_stat_statements"):
        if found := NAME.match(text):
            counts[found.group(1)] = counts.get(found.group(1), 0) + count
    return counts
