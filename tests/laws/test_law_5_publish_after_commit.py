"""Law 5: nothing speaks of a state that is not committed: no map, count, list, metric or key with a version."""

import json

import pytest

from support.bystander import CLOSE_GATE, HOLD_ALL_WRITES, await_waiting, gate, holding, trigger
from support.swarm import ask, hold_shot, shot
from support.waiting import wait_until

NODE_SETTINGS = {"request_timeout": "30s"}  # a slow machine is no fault

FAIL_FOR_DOOMED = "IF NEW.user_id LIKE 'doomed%' THEN RAISE EXCEPTION 'the test says no'; END IF; RETURN NEW;"


def statuses(reader, event):
    return {seat["seat_id"]: seat["status"] for seat in reader.seats(event).expect(200).json["seats"]}


def created(node):
    return node.metrics().get('holdfast_holds_total{outcome="created"}', 0)


def test_a_hold_in_flight_is_seen_nowhere(client, other, event, node, db, redis, org, database_url, prove):
    other.held(event, "A-10")  # memory and map know the event
    wait_until(lambda: statuses(client, event)["A-10"] == "held")
    before = created(node)
    with gate(db):
        with holding(database_url, CLOSE_GATE) as bystander:
            wire = ask(hold_shot(client, event, "A-1", "A-2"))
            await_waiting(db)  # everything is written, the COMMIT is under way
            assert statuses(other, event)["A-1"] == "available"
            assert other.occupancy(event).expect(200).json["held"] == 1
            assert client.get(f"/api/holds?event_id={event}").expect(200).json["holds"] == []
            assert created(node) == before
            lock = redis.get(f"holdfast:{{org:{org}:event:{event}}}:seat:A-1")
            assert lock is None or not json.loads(lock).get("version"), "a version that is not committed"
            bystander.release()
        hold = wire.answer().expect(201).json
    assert statuses(other, event)["A-1"] == "held"
    assert created(node) == before + 1
    assert [each["hold_id"] for each in client.get(f"/api/holds?event_id={event}").json["holds"]] == [hold["hold_id"]]
    prove(event)


def test_a_hold_that_fails_has_never_been_seen(admin, other, event, node, db, redis, org, prove):
    doomed = admin.as_user("doomed-1")
    before, map_before = created(node), other.seats(event).expect(200)
    with trigger(db, "fail_at_commit", "seat_holds", "AFTER INSERT", FAIL_FOR_DOOMED, deferred=True):
        assert doomed.hold(event, "A-1", "A-2").status == 500
    assert created(node) == before
    assert statuses(other, event)["A-1"] == "available"
    assert other.seats(event).json["version"] == map_before.json["version"], "the map moved for nothing"
    prefix = f"holdfast:{{org:{org}:event:{event}}}"
    wait_until(lambda: not redis.exists(f"{prefix}:seat:A-1"), what="the lock is taken back")
    assert not redis.zrange(f"{prefix}:seat_holds", 0, -1)
    prove(event)


@pytest.mark.parametrize("what", ["confirm", "extend", "cancel"])
def test_a_change_in_flight_is_not_seen(client, other, event, db, database_url, what, prove):
    hold = client.held(event, "A-1")
    path = f"/api/holds/{hold['hold_id']}"
    with holding(database_url, HOLD_ALL_WRITES) as bystander:
        wire = ask(shot(client, "DELETE", path) if what == "cancel" else shot(client, "POST", f"{path}/{what}", {}))
        await_waiting(db)
        assert statuses(other, event)["A-1"] == "held"
        assert client.get_hold(hold["hold_id"]).expect(200).json["expires_at"] == hold["expires_at"]
        other.hold_one(event, "A-1").expect(409, "seat_taken")
        bystander.release()
    wire.answer().expect(200)
    after = {"confirm": "sold", "extend": "held", "cancel": "available"}[what]
    assert statuses(other, event)["A-1"] == after
    prove(event)
