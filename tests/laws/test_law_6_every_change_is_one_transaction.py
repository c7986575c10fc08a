"""Law 6: seat row, line and audit row change together; a version rises by one and never goes back.

And the proof of the proof: `holdfast verify` and the audit checker find what is planted.
"""

import contextlib

import pytest

from checker import audit_checker
from support.bystander import all_rows, execute, one_value


def version_of(db, event, seat="A-1"):
    return one_value(db, "SELECT version FROM seats WHERE event_id = %s AND seat_id = %s", (event, seat))


def test_each_change_of_a_seat_makes_one_version_and_one_audit_row(client, other, event, db, prove):
    first = version_of(db, event)
    hold = client.held(event, "A-1", "A-2")["hold_id"]
    client.extend(hold).expect(200)
    client.post(f"/api/holds/{hold}/transfer", {"to_user_id": other.user}).expect(200)
    other.patch(f"/api/holds/{hold}", {"add_seat_ids": ["A-3"]}).expect(200)
    other.delete(f"/api/holds/{hold}/seats/A-1").expect(200)
    again = client.hold_one(event, "A-1").expect(201).json["hold_id"]
    client.cancel(again).expect(200)
    client.confirm(client.hold_one(event, "A-1").expect(201).json["hold_id"]).expect(200)
    story = all_rows(db, """
        SELECT version, action::text FROM audit_log WHERE event_id = %s AND seat_id = 'A-1' AND version > %s
        ORDER BY version""", (event, first))
    assert [version for version, _ in story] == list(range(first + 1, version_of(db, event) + 1))
    words = [action for _, action in story if action != "hold_changed"]
    assert words == ["seat_held", "hold_extended", "hold_transferred", "seat_released", "seat_held", "seat_released",
                     "seat_held", "seat_sold"]
    prove(event)


def test_what_changes_nothing_makes_no_version(client, other, event, db, prove):
    hold = client.held(event, "A-1")["hold_id"]
    version, rows = version_of(db, event), one_value(db, "SELECT count(*) FROM audit_log WHERE event_id = %s", (event,))
    client.hold_one(event, "A-1").expect(200)
    other.hold_one(event, "A-1").expect(409)
    other.extend(hold).expect(403)
    client.hold(event, "A-1", "nowhere").expect(404)
    client.confirm(hold, version={"A-1": version + 7}).expect(409, "version_conflict")
    assert version_of(db, event) == version
    assert one_value(db, "SELECT count(*) FROM audit_log WHERE event_id = %s", (event,)) == rows
    prove(event)


def test_a_removed_seat_goes_on_from_its_version(admin, client, event, db, prove):
    hold = client.held(event, "A-1")["hold_id"]
    client.cancel(hold).expect(200)
    before = version_of(db, event)
    assert admin.delete(f"/api/events/{event}/seats/A-1").status in (200, 204)
    removed = version_of(db, event)
    assert removed == before + 1
    client.hold_one(event, "A-1").expect(404, "seat_not_found")
    admin.make_event([{"seat_id": "A-1", "section": "main", "row": "A", "number": "1"}], event=event)
    assert version_of(db, event) > removed
    assert client.hold_one(event, "A-1").expect(201).json["seats"][0]["version"] > removed + 1
    prove(event)


# --- planted faults ------------------------------------------------------------------------------------------

FAULTS = {
    "a seat that says something else": """
        UPDATE seats SET version = version + 1 WHERE event_id = %(event)s AND seat_id = 'A-1'""",
    "a held seat that is free in the table": """
        UPDATE seats SET status = 'available', hold_id = NULL, user_id = NULL, held_until = NULL
        WHERE event_id = %(event)s AND seat_id = 'A-1'""",
    "a sold seat without its chain": """
        UPDATE seats SET status = 'sold', held_until = NULL WHERE event_id = %(event)s AND seat_id = 'A-1'""",
    "a version gap": """
        DELETE FROM audit_log WHERE event_id = %(event)s AND seat_id = 'A-2' AND action = 'hold_extended'""",
    "a version twice": """
        INSERT INTO audit_log (at, version, hold_id, held_until, action, org_id, event_id, seat_id, user_id)
        SELECT at, version, hold_id, held_until, action, org_id, event_id, seat_id, user_id FROM audit_log
        WHERE event_id = %(event)s AND seat_id = 'A-2' AND action = 'hold_extended'""",
    "two holds whose lives overlap": """
        UPDATE audit_log SET action = 'seat_held', hold_id = gen_random_uuid()
        WHERE event_id = %(event)s AND seat_id = 'A-2' AND action = 'hold_extended'""",
    "an extension after the end": """
        UPDATE audit_log SET at = at + interval '1 day'
        WHERE event_id = %(event)s AND seat_id = 'A-2' AND action = 'hold_extended'""",
    "a line that is gone": "DELETE FROM seat_holds WHERE event_id = %(event)s AND seat_id = 'A-1'",
    "a line of somebody else": "UPDATE seat_holds SET user_id = 'thief' WHERE event_id = %(event)s AND seat_id = 'A-1'",
    "an area that counts wrong": "UPDATE areas SET held = held + 1, version = version + 1 WHERE event_id = %(event)s",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_verify_and_the_checker_find_what_is_planted(admin, client, node, org, db, fault):
    event = admin.make_event(3, areas=[{"area_id": "floor", "name": "Floor", "capacity": 5}])
    client.held(event, "A-1")
    client.extend(client.held(event, "A-2", cart="cart-2")["hold_id"]).expect(200)
    client.hold(event, cart="cart-3", areas=[{"area_id": "floor", "quantity": 2}]).expect(201)
    assert node.command("verify", "--org", org, "--event", event).returncode == 0
    with planted(db, event):
        execute(db, FAULTS[fault], {"event": event})
        done = node.command("verify", "--org", org, "--event", event)
        assert done.returncode == 1, f"verify found nothing: {done.stdout}{done.stderr}"
        assert '"ok":false' in done.stdout
        assert audit_checker.check_event(db, org, event), "the audit checker found nothing"
        assert admin.get(f"/api/admin/verify/{event}").expect(200).json["ok"] is False


@contextlib.contextmanager
def planted(db, event):
    """Afterwards the event is gone, so that other tests of this module find a clean database."""
    try:
        yield
    finally:
        for table in ("audit_log", "seat_holds", "seats", "areas", "events"):
            execute(db, f"DELETE FROM {table} WHERE event_id = %s", (event,))
