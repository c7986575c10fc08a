"""A hold past its end is over, whether or not anybody cleaned up: the next buyer takes its seat over."""

import collections
import random
import time

import pytest

from support.bystander import all_rows, one_value
from support.client import Client
from support.house import LONG
from support.swarm import drive, hold_shot, tally, volley
from support.truth import seats_of
from support.waiting import wait_until

NODE_SETTINGS = {"reaper_interval_ms": 600_000}  # nobody sweeps: what is over stays until it is taken over


def story_of(db, org, event, seat):
    return all_rows(db, """
        SELECT version, action::text, reason, hold_id::text, user_id, actor FROM audit_log
        WHERE org_id = %s AND event_id = %s AND seat_id = %s AND action IN ('seat_held', 'seat_released')
        ORDER BY version""", (org, event, seat))


@pytest.fixture
def frozen(start_node):
    """A second node, which will be stopped with its timers in it."""
    return start_node(reaper_interval_ms=600_000)


def await_over(db, hold):
    wait_until(lambda: one_value(db, """
        SELECT bool_and(held_until <= clock_timestamp()) FROM seat_holds WHERE hold_id = %s""", (hold["hold_id"],)),
               timeout=15, what="its time is over")


def test_a_taken_over_seat_goes_through_two_versions(frozen, client, other, admin, db, org, prove):
    event = admin.make_event(3, policy={"hold_ttl": 4})  # the node must be frozen by then
    old = client.at(frozen).held(event, "A-1", "A-2")
    other.hold_one(event, "A-1").expect(409, "seat_taken")
    frozen.pause()
    await_over(db, old)
    assert seats_of(db, org, event)["A-1"][0] == "held", "nobody may have cleaned up"
    new = other.hold_one(event, "A-1").expect(201).json
    assert new["seats"][0]["version"] == old["seats"][0]["version"] + 2
    first = old["seats"][0]["version"]
    assert story_of(db, org, event, "A-1")[-3:] == [
        (first, "seat_held", None, old["hold_id"], client.user, client.user),
        (first + 1, "seat_released", "ttl_expired", old["hold_id"], client.user, None),
        (first + 2, "seat_held", None, new["hold_id"], other.user, other.user)]
    # The other seat of the old hold is over as well, but nobody has touched it.
    assert seats_of(db, org, event)["A-2"][:2] == ("held", old["hold_id"])
    assert client.get_hold(old["hold_id"]).expect(200).json["status"] == "expired"
    client.confirm(old["hold_id"]).expect(409, "hold_expired")
    client.extend(old["hold_id"]).expect(409, "hold_expired")
    frozen.resume()
    wait_until(lambda: seats_of(db, org, event)["A-2"][0] == "available", what="the woken node lets it go")
    assert seats_of(db, org, event)["A-1"][1] == new["hold_id"], "the woken node must not free what is another's now"
    prove(event, [old, new])


def test_the_same_user_may_take_over_their_own_hold(frozen, client, admin, db, prove):
    event = admin.make_event(1, policy={"hold_ttl": 1})
    old = client.at(frozen).held(event, "A-1")
    frozen.pause()
    await_over(db, old)
    new = client.hold_one(event, "A-1").expect(201).json
    assert new["hold_id"] != old["hold_id"]
    frozen.resume()
    prove(event, [old, new])


def test_one_of_a_crowd_takes_the_seat_over(frozen, client, admin, db, org, prove):
    event = admin.make_event(1, policy={"hold_ttl": 1})
    old = client.at(frozen).held(event, "A-1")
    frozen.pause()
    await_over(db, old)
    admin.set_event(event, policy={"hold_ttl": 60})
    answers = volley([hold_shot(admin.as_user(), event, "A-1") for _ in range(200)])
    assert tally(answers) == {(201, None): 1, (409, "seat_taken"): 199}
    frozen.resume()
    won = next(answer.json for answer in answers if answer.status == 201)
    assert len(story_of(db, org, event, "A-1")) == 3
    prove(event, [old, won])


def test_seats_of_several_holds_that_are_over_are_taken_over_together(frozen, admin, client, db, prove):
    event = admin.make_event(4, policy={"hold_ttl": 1})
    old = [admin.as_user(f"old-{n}").at(frozen).held(event, f"A-{n}") for n in range(1, 4)]
    frozen.pause()
    for hold in old:
        await_over(db, hold)
    new = client.held(event, "A-1", "A-2", "A-3", "A-4")
    assert [seat["version"] for seat in new["seats"]] == [hold["seats"][0]["version"] + 2 for hold in old] + [
        new["seats"][3]["version"]]
    frozen.resume()
    prove(event, old + [new])


def test_an_area_is_not_full_while_what_fills_it_is_over(frozen, admin, client, other, db, org, prove):
    event = admin.make_event(0, policy={"hold_ttl": 4}, areas=[{"area_id": "floor", "name": "Floor", "capacity": 8}])
    floor = [{"area_id": "floor", "quantity": 8}]
    old = client.at(frozen).hold(event, areas=floor).expect(201).json
    other.hold(event, areas=floor).expect(409, "area_full")
    frozen.pause()
    await_over(db, old)
    other.hold(event, areas=floor).expect(201)
    assert all_rows(db, "SELECT held, sold FROM areas WHERE org_id = %s AND event_id = %s", (org, event)) == [(8, 0)]
    frozen.resume()
    prove(event)


# --- everybody grabs, again and again ------------------------------------------------------------------------------

SEATS, GRABBERS, SECONDS = 200, 80, 30 if LONG else 8


def test_expiry_and_take_over_at_two_nodes_leave_no_seat_behind(node, start_node, admin, db, org, prove):
    nodes = [node, start_node(reaper_interval_ms=300)]
    event = admin.make_event(SEATS, policy={"hold_ttl": 1})
    stop = time.monotonic() + SECONDS
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    granted = []

    def grab(number):
        draw, told = random.Random(seed + number), []
        codes = collections.Counter()
        while time.monotonic() < stop or len(granted) <= SEATS:  # a slow machine takes longer for it
            user = Client(nodes[number % 2], org, f"grabber-{number}")
            wanted = [f"A-{n}" for n in draw.sample(range(1, SEATS + 1), draw.choice([1, 1, 1, 2, 3]))]
            answer = yield hold_shot(user, event, *wanted, cart=f"cart-{draw.random()}")
            codes[answer.status, answer.code] += 1
            if answer.status == 201:
                told.append(answer.json)
                granted.append(number)
        return told, codes

    results = drive([grab(number) for number in range(GRABBERS)], timeout=SECONDS + 60)
    told = [hold for holds, _ in results for hold in holds]
    codes = sum((each for _, each in results), collections.Counter())
    assert set(codes) <= {(200, None), (201, None), (409, "seat_taken"), (409, "seat_contended"),
                          (422, "too_many_seats"), (409, "hold_expired")}, codes
    assert len(told) > SEATS, codes
    wait_until(lambda: {row[0] for row in seats_of(db, org, event).values()} == {"available"}, timeout=6,
               what="every seat is free again soon after its time")
    grown = codes[200, None] > 0  # own seats again, some of them with more: told with 200
    prove(event, told, complete=not grown)
