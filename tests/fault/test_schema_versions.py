"""Nodes of two versions serve side by side while a new one is rolled out: the older one's SQL works on the newer schema.

Migrations expand: what a running node reads and writes stays as it is. What nobody uses any more goes later, in a
migration NNNN_contract_<what>.sql, whose version before is still asked here whether it needs it.
"""

import re
import subprocess
import uuid

import psycopg2
import pytest

from support import servers

MIGRATIONS = sorted((servers.CLONE / "db" / "migrations").glob("*.sql"))
SQL_FOLDERS = ("db/statements", "db/reports")
# A statement that gets NULL for all its parameters may refuse them: data errors, broken constraints, errors of ours.
DATA_ERRORS = ("22", "23", "P0")


def git(*words):
    done = subprocess.run(["git", "-C", str(servers.CLONE), *words], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def version_before():
    """The commit whose nodes run while the last migration comes: the one before it was added, or HEAD if it is newer."""
    if len(MIGRATIONS) < 2:
        pytest.skip("the schema has had one version only")
    if git("rev-parse", "HEAD") is None:
        pytest.skip("no git history here")
    adding = git("log", "--diff-filter=A", "--format=%H", "--", str(MIGRATIONS[-1])).split()
    if not adding:
        return "HEAD"
    before = f"{adding[-1]}^"
    if git("rev-parse", "--verify", before) is None:
        pytest.skip("the git history doesn't reach back to the version before")
    return before


def statements_of(commit):
    """{path: text}"""
    paths = git("ls-tree", "-r", "--name-only", "--full-tree", commit, *SQL_FOLDERS).splitlines()
    return {path: git("show", f"{commit}:{path}") for path in paths if path.endswith(".sql")}


def test_statements_of_the_version_before_work_on_this_schema(db):
    commit = version_before()
    statements = statements_of(commit)
    assert len(statements) > 20, f"{commit} has {len(statements)} statements"
    troubles = {path: trouble for path, text in statements.items() if (trouble := trouble_with(db, text))}
    assert not troubles, f"on the schema {MIGRATIONS[-1].name}, statements of {commit}: {troubles}"


def trouble_with(db, text):
    """What Postgres says against preparing it as a node does, and against running it about nothing; None: nothing."""
    with db.cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            cursor.execute(f"PREPARE before AS {text}")
            cursor.execute("SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'before'")
            [parameters] = cursor.fetchone()
            cursor.execute("EXECUTE before" + (f"({', '.join(['NULL'] * parameters)})" if parameters else ""))
        except psycopg2.Error as error:
            return None if error.pgcode[:2] in DATA_ERRORS else f"{error.pgcode}: {error}"
        finally:
            cursor.execute("ROLLBACK")
            cursor.execute("DEALLOCATE ALL")
    return None


def test_a_statement_that_the_schema_cannot_serve_is_found(db):
    assert trouble_with(db, "SELECT seat_id FROM seats WHERE org_id = $1") is None
    assert trouble_with(db, "INSERT INTO batches (batch_id) VALUES ($1)") is None
    assert "42703" in trouble_with(db, "SELECT no_such_column FROM seats WHERE org_id = $1")
    assert "42P01" in trouble_with(db, "SELECT 1 FROM no_such_table")
    assert "42883" in trouble_with(db, "SELECT no_such_function($1::text)")


# --- the audit log becomes one of months ------------------------------------------------------------------------


def test_the_audit_log_keeps_its_rows_and_its_writers(postgres_url):
    """A node of the version before goes on with its prepared statement: on the same table, as far as it knows."""
    name = f"holdfast_months_{uuid.uuid4().hex[:8]}"
    connection = psycopg2.connect(servers.make_database(postgres_url, name))
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            [at] = [i for i, migration in enumerate(MIGRATIONS) if migration.stem.endswith("_audit")]
            for migration in MIGRATIONS[:at]:
                cursor.execute(migration.read_text())
            cursor.execute("PREPARE old (timestamptz, text) AS INSERT INTO audit_log (at, action, org_id, event_id, seat_id) "
                           "VALUES ($1, 'seat_held', 'o', 'e', $2)")
            cursor.execute("EXECUTE old ('2020-02-29', 'A-1')")
            cursor.execute("EXECUTE old (clock_timestamp(), 'A-2')")
            cursor.execute("BEGIN;" + MIGRATIONS[at].read_text() + "COMMIT;")
            cursor.execute("EXECUTE old (clock_timestamp(), 'A-3')")
            cursor.execute("EXECUTE old (clock_timestamp() + interval '40 days', 'A-4')")
            cursor.execute("SELECT id, seat_id FROM audit_log ORDER BY id")
            assert cursor.fetchall() == [(1, "A-1"), (2, "A-2"), (3, "A-3"), (4, "A-4")]
            cursor.execute("SELECT count(DISTINCT tableoid), count(*) FILTER (WHERE tableoid = 'audit_log_default'::regclass) "
                           "FROM audit_log")
            assert cursor.fetchone() == (2, 0)
    finally:
        connection.close()


# --- one seat per user comes to flights ---------------------------------------------------------------------------


def test_flights_sold_by_the_old_rule_keep_it_and_new_ones_have_theirs(postgres_url):
    name = f"holdfast_flights_{uuid.uuid4().hex[:8]}"
    connection = psycopg2.connect(servers.make_database(postgres_url, name))
    connection.autocommit = True
    put = ("INSERT INTO events (org_id, event_id, kind, name, status, hold_ttl, extend_by, max_hold, max_seats_per_hold) "
           "VALUES ('o', %s, %s, '', 'on_sale', 1, 1, 1, 9)")
    try:
        with connection.cursor() as cursor:
            [at] = [i for i, migration in enumerate(MIGRATIONS) if migration.stem.endswith("_flights")]
            for migration in MIGRATIONS[:at]:
                cursor.execute(migration.read_text())
            for event, kind in [("twice", "flight"), ("once", "flight"), ("play", "event")]:
                cursor.execute(put, (event, kind))
            for event, user, status in [("twice", "u", "converted"), ("twice", "u", "converted"), ("once", "u", "converted"),
                                        ("once", "w", "converted"), ("once", "u", "cancelled"), ("play", "u", "converted"),
                                        ("play", "u", "converted")]:
                cursor.execute("INSERT INTO seat_holds (hold_id, line, held_until, created_at, org_id, event_id, seat_id, "
                               "user_id, cart_token, source, status, ended_at) VALUES (gen_random_uuid(), 1, now(), now(), "
                               "'o', %s, gen_random_uuid(), %s, '', '', %s, now())", (event, user, status))
            cursor.execute("BEGIN;" + MIGRATIONS[at].read_text() + "COMMIT;")
            cursor.execute(put, ("new", "flight"))  # by a node of the version before
            cursor.execute("SELECT event_id, one_seat_per_user FROM events")
            assert dict(cursor.fetchall()) == {"twice": False, "once": None, "play": None, "new": None}
    finally:
        connection.close()


# --- what a migration may do -----------------------------------------------------------------------------------

CONTRACTING = [
    (r"\bDROP\b(?! (NOT NULL|DEFAULT)\b)", "removes"),
    (r"\bRENAME\b", "renames"),
    (r"\bTRUNCATE\b", "empties"),
    (r"\bALTER( COLUMN)? \S+( SET DATA)? TYPE\b", "changes a type"),
    (r"\bSET NOT NULL\b", "demands a value that older nodes don't write"),
    (r"\bADD( COLUMN)?( IF NOT EXISTS)? (?!CONSTRAINT\b)(?=[^,;]*\bNOT NULL\b)(?![^,;]*\bDEFAULT\b)",
     "demands a value that older nodes don't write"),
    (r"\bADD (CONSTRAINT \S+ )?(CHECK|UNIQUE|PRIMARY KEY|FOREIGN KEY|EXCLUDE)\b", "forbids what older nodes may write"),
]


def contracts(text):
    """What in this migration an older node could stumble over."""
    text = re.sub(r"--[^\n]*", " ", text)
    text = re.sub(r"(CREATE FUNCTION [^$]*)\$\$.*?\$\$", r"\1", text, flags=re.DOTALL)  # what it would do isn't done here
    text = re.sub(r"\s+", " ", text)
    text = without_replaced_tables(text)
    own_tables = set(re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", text, re.IGNORECASE))
    found = [f"{why}: {match.group(0)}" for pattern, why in CONTRACTING
             for match in re.finditer(pattern, text, re.IGNORECASE)]
    for match in re.finditer(r"CREATE UNIQUE INDEX .*? ON (?:ONLY )?(\w+)", text, re.IGNORECASE):
        if match.group(1) not in own_tables:
            found.append(f"forbids what older nodes may write: {match.group(0)}")
    return found


def without_replaced_tables(text):
    """A table may give its name to a new one, which must serve as it did: then nobody knows it under its other name."""
    for old, other in re.findall(r"ALTER TABLE (\w+) RENAME TO (\w+);", text):
        if re.search(rf"CREATE TABLE {old} \(", text):
            text = re.sub(rf"ALTER TABLE {old} RENAME TO {other};|ALTER TABLE {other} [^;]*;", " ", text)
    return text


@pytest.mark.parametrize("migration", MIGRATIONS[1:], ids=lambda path: path.stem)
def test_a_migration_only_expands(migration):
    if not re.match(r"\d+_contract_", migration.name):
        assert not contracts(migration.read_text())


@pytest.mark.parametrize("text", [
    "ALTER TABLE seats DROP COLUMN price;", "DROP TABLE areas;", "ALTER TABLE seats RENAME COLUMN price TO cost;",
    "ALTER TABLE seats ALTER COLUMN price TYPE bigint;", "ALTER TABLE seats ALTER price SET DATA TYPE bigint;",
    "ALTER TABLE seats ADD COLUMN gate text NOT NULL;", "ALTER TABLE seats ADD gate text\n    NOT NULL;",
    "ALTER TABLE seats ADD COLUMN a int DEFAULT 1, ADD COLUMN b int NOT NULL;",
    "ALTER TABLE seats ALTER COLUMN price SET NOT NULL;", "ALTER TABLE seats ADD CHECK (price > 0);",
    "ALTER TABLE seats ADD CONSTRAINT dear CHECK (price > 0);", "CREATE UNIQUE INDEX one ON seats (org_id, number);",
    "ALTER TABLE seats RENAME TO chairs; CREATE TABLE benches (a int);", "DO $$ BEGIN DROP TABLE seats; END $$;",
    "ALTER TABLE seats RENAME TO chairs; CREATE TABLE seats (a int); ALTER TABLE areas DROP COLUMN price;",
])
def test_what_contracts_is_found(text):
    assert contracts(text)


@pytest.mark.parametrize("text", [
    "-- DROP nothing\nCREATE TABLE t (a int NOT NULL); CREATE UNIQUE INDEX one ON t (a);",
    "ALTER TABLE seats ADD COLUMN gate text;", "ALTER TABLE seats ADD COLUMN gate text NOT NULL DEFAULT '';",
    "ALTER TABLE seats ALTER COLUMN price DROP NOT NULL;", "CREATE INDEX more ON seats (org_id, number);",
    "ALTER TABLE seats RENAME TO old_seats; CREATE TABLE seats (a int); ALTER TABLE old_seats DROP CONSTRAINT seats_pkey;",
    "CREATE FUNCTION tidy() RETURNS void LANGUAGE sql AS $$ DROP TABLE seats $$; CREATE INDEX more ON seats (number);",
])
def test_what_expands_may_be_done(text):
    assert not contracts(text)
