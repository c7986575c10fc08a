"""POST /api/admin/seats/block and /unblock: seats that are not for sale."""

import pytest

from support.contract import check_problem
from support.tables import actions, audit, seat_row
from support.waiting import wait_until


def block(admin, event, *seats, reason="rain"):
    return admin.post("/api/admin/seats/block", {"event_id": event, "seat_ids": list(seats), "reason": reason})


def unblock(admin, event, *seats, reason="sun"):
    return admin.post("/api/admin/seats/unblock", {"event_id": event, "seat_ids": list(seats), "reason": reason})


def test_blocked_and_free_again(client, admin, event, db, org, check_audit):
    assert block(admin, event, "A-1", "A-2").expect(200).json == {"changed": 2, "skipped": []}
    assert client.seat_status(event, "A-1") == "blocked"
    assert seat_row(db, org, event, "A-1").status == "blocked"
    client.hold_one(event, "A-1").expect(409, "seat_blocked")
    assert unblock(admin, event, "A-1").expect(200).json == {"changed": 1, "skipped": []}
    client.hold_one(event, "A-1").expect(201)
    client.hold_one(event, "A-2").expect(409, "seat_blocked")
    assert actions(db, org, event, "A-1")[-3:] == ["seat_blocked", "seat_unblocked", "seat_held"]
    assert [entry.actor for entry in audit(db, org, event, "A-1")[-3:]] == [admin.user, admin.user, client.user]
    check_audit(event)


def test_held_and_sold_seats_stay_as_they_are(client, admin, event, db, org, check_audit):
    client.held(event, "A-1")
    client.confirm(client.held(event, "A-2", cart="c2")["hold_id"]).expect(200)
    before = [seat_row(db, org, event, name) for name in ("A-1", "A-2")]
    result = block(admin, event, "A-1", "A-2", "A-3", "Z-1").expect(200).json
    assert result["changed"] == 1
    assert {skipped["seat_id"] for skipped in result["skipped"]} == {"A-1", "A-2", "Z-1"}
    assert all(skipped["reason"] for skipped in result["skipped"])
    assert [seat_row(db, org, event, name) for name in ("A-1", "A-2")] == before
    check_audit(event)


def test_again_it_changes_nothing(admin, event, db, org):
    block(admin, event, "A-1").expect(200)
    before = seat_row(db, org, event, "A-1")
    result = block(admin, event, "A-1").expect(200).json
    assert result["changed"] == 0 and [skipped["seat_id"] for skipped in result["skipped"]] == ["A-1"]
    assert seat_row(db, org, event, "A-1") == before
    assert unblock(admin, event, "A-2").expect(200).json["changed"] == 0
    assert seat_row(db, org, event, "A-2").status == "available"


def test_a_seat_whose_hold_is_over_can_be_blocked(client, admin, db, org, check_audit):
    event = admin.make_event(2, policy={"hold_ttl": 1})
    hold = client.held(event, "A-1")["hold_id"]
    wait_until(lambda: client.get_hold(hold).json["status"] == "expired")
    assert block(admin, event, "A-1").expect(200).json["changed"] == 1
    assert actions(db, org, event, "A-1")[-3:] == ["seat_held", "seat_released", "seat_blocked"]
    check_audit(event)


def test_each_change_raises_the_version_by_one(admin, event, db, org):
    first = seat_row(db, org, event, "A-1").version
    block(admin, event, "A-1").expect(200)
    unblock(admin, event, "A-1").expect(200)
    block(admin, event, "A-1").expect(200)
    assert seat_row(db, org, event, "A-1").version == first + 3


@pytest.mark.parametrize("body", [
    {"seat_ids": ["A-1"]}, {"event_id": "e"}, {"event_id": "e", "seat_ids": []}, {"event_id": "e", "seat_ids": "A-1"},
    {"event_id": "e", "seat_ids": [1]}, {"event_id": 1, "seat_ids": ["A-1"]}, {"event_id": "e", "seat_ids": ["A 1"]},
    {"event_id": "e", "seat_ids": ["A-1"], "reason": 7},
])
def test_bodies_that_are_wrong(admin, body):
    for action in ("block", "unblock"):
        answer = admin.post(f"/api/admin/seats/{action}", {"reason": "x"} | body)
        assert answer.status == 400 and answer.code in ("missing_field", "invalid_field", "invalid_id"), answer
        check_problem(answer, answer.code)


def test_a_thousand_seats_at_once(admin):
    event = admin.make_event(1000)
    names = [f"A-{n}" for n in range(1, 1001)]
    assert block(admin, event, *names).expect(200).json == {"changed": 1000, "skipped": []}
    assert unblock(admin, event, *names).expect(200).json == {"changed": 1000, "skipped": []}


def test_blocked_by_one_node_is_refused_by_another(client, admin, event, start_node):
    second = client.at(start_node())
    second.hold_one(event, "A-2").expect(201)
    block(admin, event, "A-1").expect(200)
    second.hold_one(event, "A-1").expect(409, "seat_blocked")
    unblock(admin, event, "A-1").expect(200)
    wait_until(lambda: second.hold_one(event, "A-1").status == 201, timeout=5)
