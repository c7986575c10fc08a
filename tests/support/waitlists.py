"""Waitlists as tests ask for them, and what Postgres has of them.

    entry = joined(client, event, type="window")        # 201, parsed
    got(client, entry)                                   # waits until it has a seat; the entry
"""

from support.swarm import shot
from support.tables import query
from support.waiting import wait_until


def body_of(user=None, type=None, section=None, email=None):
    wish = {name: value for name, value in (("seatType", type), ("section", section)) if value is not None}
    return {name: value for name, value in
            (("userId", user), ("seatPreferences", wish or None), ("customerEmail", email)) if value is not None}


def join(client, event, flight=False, headers=None, **wish):
    path = f"/flights/{event}/waitlist" if flight else f"/api/events/{event}/waitlist"
    return client.post(path, body_of(**wish), headers=headers)


def joined(client, event, **more):
    return join(client, event, **more).expect(201).json


def join_shot(client, event, **wish):
    return shot(client, "POST", f"/api/events/{event}/waitlist", body_of(**wish))


def entry_of(client, entry):
    return client.get(f"/waitlist/{entry['waitlistId']}").expect(200).json


def leave(client, entry):
    return client.delete(f"/waitlist/{entry['waitlistId']}")


def is_now(client, entry, *statuses):
    """The entry if it has one of these statuses; else None."""
    now = entry_of(client, entry)
    return now if now["status"] in statuses else None


def got(client, entry, *statuses, timeout=10):
    """Waits until it has one of these statuses, ASSIGNED if none is named; the entry."""
    statuses = statuses or ("ASSIGNED",)
    return wait_until(lambda: is_now(client, entry, *statuses), timeout, what=f"{entry} is {' or '.join(statuses)}")


def row_of(db, entry):
    """What is written down, whatever its hold says."""
    [row] = query(db, "SELECT status, seat_id, hold_id::text, user_id, place FROM waitlist WHERE waitlist_id = %s",
                  entry["waitlistId"])
    return row


def await_row(db, entry, status, timeout=10):
    return wait_until(lambda: (row := row_of(db, entry)).status == status and row, timeout,
                      what=f"{entry} is written down as {status}")


def told(db, entry):
    """The kinds of domain events that speak of an entry, in order."""
    return [row.kind for row in query(
        db, "SELECT kind FROM outbox WHERE payload->>'waitlist_id' = %s ORDER BY id", entry["waitlistId"])]


def assigned(db, org, event):
    """What was given or offered, in the order of commits as far as one seat's or one list's goes: place, user, seat, type
    and section wished, and when."""
    return query(db, """
        SELECT w.place, w.user_id, a.seat_id, w.seat_type, w.section, a.at, a.action::text
        FROM audit_log a JOIN waitlist w ON w.waitlist_id = (a.meta->>'waitlist_id')::uuid
        WHERE a.org_id = %s AND a.event_id = %s AND a.action::text IN ('waitlist_assigned', 'waitlist_offered')
        ORDER BY a.id""", org, event)


def await_assigned(db, org, event, count, timeout=60):
    """Waits until so many were served; what was given or offered."""
    return wait_until(lambda: len(rows := assigned(db, org, event)) >= count and (rows,), timeout, every=0.1,
                      what=f"{count} are served")[0]


def assert_first_come_first_served(db, org, event):
    """Among entries with the same wish, seats were given in the order of their places."""
    last = {}
    for row in assigned(db, org, event):
        wish = (row.seat_type, row.section)
        assert last.get(wish, 0) < row.place, f"{row} came before the one at {last[wish]}"
        last[wish] = row.place


def assert_nobody_twice(db, org, event):
    """Each entry was given or offered one seat, and each user has one sold seat at the most."""
    twice = query(db, """
        SELECT meta->>'waitlist_id' AS entry, count(DISTINCT hold_id) AS n FROM audit_log
        WHERE org_id = %s AND event_id = %s AND action::text IN ('waitlist_assigned', 'waitlist_offered')
        GROUP BY 1 HAVING count(DISTINCT hold_id) > 1""", org, event)
    assert not twice, twice
    many = query(db, "SELECT user_id, count(*) FROM seats WHERE org_id = %s AND event_id = %s AND status = 'sold' "
                 "GROUP BY 1 HAVING count(*) > 1", org, event)
    assert not many, many
