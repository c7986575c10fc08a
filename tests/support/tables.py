"""What Postgres has: the tables that API.md names, read by tests of their own accord."""

import collections
import contextlib

import psycopg2


def query(db, statement, *parameters):
    """The rows as named tuples."""
    with db.cursor() as cursor:
        cursor.execute(statement, parameters)
        row_type = collections.namedtuple("Row", [column.name for column in cursor.description], rename=True)
        return [row_type(*row) for row in cursor.fetchall()]


def seat_row(db, org, event, seat):
    rows = query(db, "SELECT seat_id, status::text, hold_id::text, held_until, version, user_id, in_payment, price "
                 "FROM seats WHERE org_id = %s AND event_id = %s AND seat_id = %s", org, event, seat)
    assert len(rows) == 1, (org, event, seat, rows)
    return rows[0]


def seat_statuses(db, org, event):
    return dict(query(db, "SELECT seat_id, status::text FROM seats WHERE org_id = %s AND event_id = %s", org, event))


def area_row(db, org, event, area):
    [row] = query(db, "SELECT capacity, held, sold, version FROM areas "
                  "WHERE org_id = %s AND event_id = %s AND area_id = %s", org, event, area)
    return row


def hold_lines(db, hold_id):
    """The rows of a hold in seat_holds, in the order in which they came."""
    return query(db, "SELECT seat_id, area_id, quantity, user_id, cart_token, status::text, held_until, created_at, "
                 "source, reason, notes, price, customer_email FROM seat_holds WHERE hold_id = %s ORDER BY line",
                 hold_id)


def audit(db, org, event, seat=None):
    """The audit entries of an event, or of one of its seats, oldest first."""
    return query(db, "SELECT action::text, seat_id, area_id, version, hold_id::text, held_until, quantity, user_id, "
                 "actor, reason, request_id, at FROM audit_log WHERE org_id = %s AND event_id = %s "
                 "AND (%s::text IS NULL OR seat_id = %s) ORDER BY id", org, event, seat, seat)


def actions(db, org, event, seat):
    return [entry.action for entry in audit(db, org, event, seat)]


@contextlib.contextmanager
def transaction(url):
    """A second session with a transaction open: its locks last until the block ends. Yields its cursor."""
    connection = psycopg2.connect(url)
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.rollback()
        connection.close()


@contextlib.contextmanager
def seat_locked(url, org, event, *seats):
    """The rows of these seats are locked by somebody else."""
    with transaction(url) as cursor:
        cursor.execute("SELECT 1 FROM seats WHERE org_id = %s AND event_id = %s AND seat_id = ANY(%s) FOR UPDATE",
                       (org, event, list(seats)))
        assert cursor.rowcount == len(seats)
        yield cursor


def all_is_told(db, org):
    """Whether the outbox was looked through to its end, and nothing of it waits to be told for this organization."""
    [row] = query(db, "SELECT (SELECT routed_to FROM outbox_cursor) >= COALESCE((SELECT max(id) FROM outbox), 0) AS routed, "
                  "(SELECT count(*) FROM deliveries WHERE org_id = %s AND told_to < todo_to) AS waiting", org)
    return row.routed and row.waiting == 0
