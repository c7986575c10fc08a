"""Law 8: organizations never meet, also where they use the same names."""

import pytest

from support.bystander import all_rows
from support.client import Client
from support.swarm import hold_shot, tally, volley
from support.waiting import wait_until


@pytest.fixture
def tenants(node, org, admin):
    """Two organizations with an event of the same name and the same seats: [(admin, user), (admin, user)]."""
    admin.make_event(4, event="premiere", areas=[{"area_id": "floor", "name": "Floor", "capacity": 10}])
    second = Client(node, f"{org}-b", "admin-1", "admin")
    second.make_event(4, event="premiere", areas=[{"area_id": "floor", "name": "Floor", "capacity": 10}])
    return [(admin, Client(node, org, "user-1")), (second, Client(node, second.org, "user-1"))]


def test_the_same_seat_of_two_organizations_is_two_seats(tenants, prove, check_audit):
    (_, mine), (_, theirs) = tenants
    one, two = mine.held("premiere", "A-1"), theirs.held("premiere", "A-1")
    assert one["hold_id"] != two["hold_id"]
    mine.confirm(one["hold_id"]).expect(200)
    assert mine.seat_status("premiere", "A-1") == "sold"
    assert theirs.seat_status("premiere", "A-1") == "held"
    theirs.cancel(two["hold_id"]).expect(200)
    assert mine.seat_status("premiere", "A-1") == "sold"
    theirs.as_user().hold_one("premiere", "A-1").expect(201)
    prove("premiere")
    check_audit("premiere", org=theirs.org)


def test_a_crowd_of_two_organizations_has_two_winners(tenants):
    (_, mine), (_, theirs) = tenants
    users = [(mine, theirs)[n % 2].as_user(f"user-{n // 2}") for n in range(200)]
    answers = volley([hold_shot(user, "premiere", "A-2") for user in users])
    for half in (answers[::2], answers[1::2]):
        assert tally(half) == {(201, None): 1, (409, "seat_taken"): 99}


def test_the_keys_in_redis_are_apart(tenants, redis):
    (_, mine), (_, theirs) = tenants
    hold = mine.held("premiere", "A-1")
    key = "holdfast:{{org:{}:event:premiere}}:seat:A-1"
    wait_until(lambda: redis.exists(key.format(mine.org)), what="its key is written")
    assert hold["hold_id"] in redis.get(key.format(mine.org))
    assert not redis.exists(key.format(theirs.org))
    assert not list(redis.scan_iter(f"*org:{theirs.org}:*"))
    theirs.held("premiere", "A-1")
    wait_until(lambda: redis.exists(key.format(theirs.org)), what="its key is written")
    assert hold["hold_id"] not in redis.get(key.format(theirs.org))


def test_an_organization_counts_and_maps_only_its_own(tenants):
    (_, mine), (_, theirs) = tenants
    mine.held("premiere", "A-1", "A-2", areas=[{"area_id": "floor", "quantity": 3}])
    wait_until(lambda: mine.occupancy("premiere").expect(200).json["held"] == 5, what="its own are counted")
    assert theirs.occupancy("premiere").expect(200).json["held"] == 0
    held = {seat["seat_id"] for seat in mine.seats("premiere").expect(200).json["seats"] if seat["status"] == "held"}
    assert held == {"A-1", "A-2"}
    others = theirs.seats("premiere").expect(200).json
    assert {seat["status"] for seat in others["seats"]} == {"available"}
    assert others["areas"][0]["available"] == 10
    assert theirs.get("/api/holds?event_id=premiere").expect(200).json["holds"] == []


@pytest.mark.parametrize("role", ["user", "agent", "service", "admin"])
def test_another_organizations_hold_does_not_exist_whatever_one_may_do(tenants, db, role):
    (_, mine), (_, theirs) = tenants
    hold = mine.held("premiere", "A-1")["hold_id"]
    stranger = theirs.as_user("user-1", role)
    stranger.get_hold(hold).expect(404, "hold_not_found")
    stranger.extend(hold).expect(404, "hold_not_found")
    stranger.confirm(hold).expect(404, "hold_not_found")
    stranger.cancel(hold).expect(404, "hold_not_found")
    stranger.patch(f"/api/holds/{hold}", {"add_seat_ids": ["A-3"]}).expect(404, "hold_not_found")
    stranger.post(f"/api/holds/{hold}/transfer", {"to_user_id": "user-9"}).expect(404, "hold_not_found")
    stranger.delete(f"/api/holds/{hold}/seats/A-1").expect(404, "hold_not_found")
    assert all_rows(db, "SELECT status::text FROM seat_holds WHERE hold_id = %s", (hold,)) == [("active",)]
    assert mine.get_hold(hold).expect(200).json["status"] == "active"


def test_an_organization_in_the_request_is_not_heard(tenants, db):
    (_, mine), (_, theirs) = tenants
    answer = mine.post("/api/holds?org=" + theirs.org, {
        "event_id": "premiere", "seat_ids": ["A-3"], "cart_token": "c", "org": theirs.org, "org_id": theirs.org},
        headers={"X-Org": theirs.org, "X-Organization": theirs.org})
    hold = answer.expect(201).json["hold_id"]
    assert all_rows(db, "SELECT DISTINCT org_id FROM seat_holds WHERE hold_id = %s", (hold,)) == [(mine.org,)]


def test_every_row_of_a_hold_names_its_organization(tenants, db):
    (_, mine), _ = tenants
    hold = mine.held("premiere", "A-4", headers={"Idempotency-Key": "k"})["hold_id"]
    for table in ("seats", "seat_holds", "audit_log"):
        assert all_rows(db, f"SELECT DISTINCT org_id FROM {table} WHERE hold_id = %s", (hold,)) == [(mine.org,)]
    assert all_rows(db, "SELECT count(*) FROM idempotency_keys WHERE org_id = %s AND key = 'k'", (mine.org,)) == [(1,)]


def test_the_same_idempotency_key_of_two_organizations_is_two_keys(tenants):
    (_, mine), (_, theirs) = tenants
    one = mine.held("premiere", "A-1", headers={"Idempotency-Key": "k"})
    two = theirs.held("premiere", "A-1", headers={"Idempotency-Key": "k"})
    assert one["hold_id"] != two["hold_id"]
