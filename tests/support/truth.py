"""What clients were told, compared with what stands in Postgres."""

from support.bystander import all_rows


def lines_of(db, org, event):
    """{(hold, seat): (user, status)} of all seat lines."""
    return {(hold, seat): (user, status) for hold, seat, user, status in all_rows(db, """
        SELECT hold_id::text, seat_id, user_id, status::text FROM seat_holds
        WHERE org_id = %s AND event_id = %s AND seat_id IS NOT NULL""", (org, event))}


def takes_of(db, org, event):
    """{(hold, seat, user, version)} of every seat that was ever taken."""
    return set(all_rows(db, """
        SELECT hold_id::text, seat_id, user_id, version FROM audit_log
        WHERE org_id = %s AND event_id = %s AND seat_id IS NOT NULL AND action = 'seat_held'""", (org, event)))


def takes_told(hold):
    """The same of a hold that a client heard of as new."""
    return {(hold["hold_id"], seat["seat_id"], hold["user_id"], seat["version"]) for seat in hold["seats"]}


def seats_of(db, org, event):
    """{seat: (status, hold, user)}"""
    return {seat: (status, hold, user) for seat, status, hold, user in all_rows(db, """
        SELECT seat_id, status::text, hold_id::text, user_id FROM seats
        WHERE org_id = %s AND event_id = %s""", (org, event))}


def assert_told_is_true(db, org, event, holds, complete=True):
    """Each 201 has its rows; and, where no answer was lost, no row is without its 201."""
    told = set().union(*map(takes_told, holds)) if holds else set()
    stands = takes_of(db, org, event)
    assert not told - stands, f"told, but not in Postgres: {sorted(told - stands)[:10]}"
    if complete:
        assert not stands - told, f"in Postgres, but never told: {sorted(stands - told)[:10]}"
