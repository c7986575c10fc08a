"""Nothing that is done to a hold reads a table as a whole, though the plans are made while the tables are empty.

Such a plan costs nothing in a test of ten seats, and everything in the first minutes of a sale.
"""

from support.checkouts import cancel, started
from support.client import seat
from support.tables import query
from support.waiting import wait_until

NODE_SETTINGS = {"reaper_interval_ms": 300}
TABLES = ("seats", "seat_holds", "audit_log", "batches")
AREA = {"area_id": "floor", "name": "Floor", "capacity": 50}


def scans(db):
    """({table: how often it was read as a whole}, how often anything was found by an index)."""
    rows = query(db, "SELECT relname, seq_scan, coalesce(idx_scan, 0) FROM pg_stat_user_tables")
    return ({name: count for name, count, _ in rows if name.startswith(TABLES)},
            sum(count for name, _, count in rows if name.startswith(TABLES)))


def live(client, other, admin, event):
    """What can happen to holds, once."""
    wish = [{"area_id": "floor", "quantity": 2}]
    hold = client.held(event, "A-1", "A-2")["hold_id"]
    other.hold(event, "A-2", "A-3").expect(409, "seat_taken")
    client.patch(f"/api/holds/{hold}", {"add_seat_ids": ["A-4"], "remove_seat_ids": ["A-1"]}).expect(200)
    client.extend(hold).expect(200)
    client.delete(f"/api/holds/{hold}/seats/A-4").expect(200)
    client.confirm(hold).expect(200)
    client.cancel(client.held(event, "A-5", cart="c2")["hold_id"]).expect(200)
    area = client.hold(event, cart="c3", areas=wish).expect(201).json["hold_id"]
    client.hold(event, cart="c3", areas=wish).expect(200)
    client.cancel(area).expect(200)
    client.hold(event, "A-6", cart="c4", areas=wish).expect(201)
    cancel(client, started(client, event)).expect(200)
    other.hold(event, "A-7", cart="c5", areas=wish).expect(201)
    admin.post("/api/admin/seats/release", {"event_id": event, "seat_ids": ["A-7"]}).expect(200)


def test_what_happens_to_holds_is_found_by_keys(node, client, other, admin, db):
    event = admin.make_event([seat(f"A-{n}", number=n) for n in range(1, 11)], areas=[AREA],
                             policy={"hold_ttl": 1, "max_seats_per_user": 50})
    lasting = admin.make_event(10, areas=[AREA])
    client.hold(event, "A-9", areas=[{"area_id": "floor", "quantity": 1}]).expect(201)
    wait_until(lambda: client.seat_status(event, "A-9") == "available", timeout=20)  # it has expired
    whole, by_index = scans(db)
    for turn in range(3):
        live(client.as_user(f"user-{turn}"), other.as_user(f"other-{turn}"), admin, admin.make_event(10, areas=[AREA]))
    client.hold(event, "A-9", areas=[{"area_id": "floor", "quantity": 1}]).expect(201)
    wait_until(lambda: client.seat_status(event, "A-9") == "available", timeout=20)

    def is_counted():
        """A session tells what it has counted a second later, and when it has something to do."""
        client.cancel(client.held(lasting, "A-1")["hold_id"]).expect(200)
        return scans(db)[1] > by_index + 150

    wait_until(is_counted, timeout=30, every=0.5)
    now = scans(db)[0]
    assert {name: count - whole[name] for name, count in now.items() if count > whole[name]} == {}
