"""A node that is stopped (SIGSTOP) past the end of its holds says no stale yes when it wakes."""

import collections
import datetime
import time

import pytest

from support.client import Client
from support.house import LONG
from support.swarm import ask, drive, hold_shot, shot
from support.truth import seats_of
from support.waiting import TooLate, one_of, wait_until

HOLDS = 40
HOLD_TTL_S = 2
# Until an answer is read; a yes of before a freeze would be later by more than the 2.5 s of that, less its hold's 1 s.
READ_WITHIN_S = 0.7


@pytest.fixture
def sleeper(start_node):
    return start_node(reaper_interval_ms=200)


def over_at(hold):
    return datetime.datetime.fromisoformat(hold["expires_at"].replace("Z", "+00:00")).timestamp()


def await_free(db, org, event):
    wait_until(lambda: {row[0] for row in seats_of(db, org, event).values()} == {"available"}, timeout=15,
               what="the other node frees what the sleeper held")


# What may be said of a hold that is over: its seats are somebody else's.
REQUESTS = {
    "confirm": (lambda hold: ("POST", f"/api/holds/{hold['hold_id']}/confirm", {}), {(409, "hold_expired")}),
    "extend": (lambda hold: ("POST", f"/api/holds/{hold['hold_id']}/extend", {}), {(409, "hold_expired")}),
    "transfer": (lambda hold: ("POST", f"/api/holds/{hold['hold_id']}/transfer", {"to_user_id": "heir"}),
                 {(409, "hold_expired")}),
    "patch": (lambda hold: ("PATCH", f"/api/holds/{hold['hold_id']}", {"add_seat_ids": ["A-1"]}),
              {(409, "hold_expired")}),
    "hold again": (lambda hold: ("POST", "/api/holds", {
        "event_id": hold["event_id"], "seat_ids": [hold["seats"][0]["seat_id"]], "cart_token": "cart-1"}),
        {(409, "seat_taken")}),
    "cancel": (lambda hold: ("DELETE", f"/api/holds/{hold['hold_id']}", None), {(200, "expired")}),
    "read": (lambda hold: ("GET", f"/api/holds/{hold['hold_id']}", None), {(200, "expired")}),
    "seat": (lambda hold: ("GET", f"/api/events/{hold['event_id']}/seats/{hold['seats'][0]['seat_id']}", None),
             {(200, "held by another")}),
}


def said(answer):
    """(status, what it says of the hold or of the seat)"""
    if answer.status != 200:
        return answer.status, answer.code
    if "seat_id" in answer.json:
        return 200, answer.json["status"] + (" by me" if answer.json.get("mine") else " by another")
    return 200, answer.json["status"]


def test_a_node_that_slept_past_the_end_of_its_holds_says_so(node, sleeper, admin, db, org, prove):
    """Asked while it sleeps, and again as soon as it is awake, when others have the seats."""
    seats = 8 * len(REQUESTS)
    event = admin.make_event(seats, policy={"hold_ttl": HOLD_TTL_S, "extend_by": 60, "max_hold": 600})
    holds = hold_all(sleeper, org, event, "user", seats)
    asked = collections.defaultdict(list)

    def ask_all(some):
        for n in some:
            what = list(REQUESTS)[n % len(REQUESTS)]
            request, _ = REQUESTS[what]
            asked[what].append(ask(shot(Client(sleeper, org, f"user-{n}"), *request(holds[n]))))

    sleeper.pause()
    try:
        ask_all(range(seats // 2))
        await_free(db, org, event)
        admin.set_event(event, policy={"hold_ttl": 600, "max_hold": 600})
        won = hold_all(node, org, event, "rival", seats)
        if LONG:
            time.sleep(12)  # until its row is old, and the others have done without it
    finally:
        sleeper.resume()
    ask_all(range(seats // 2, seats))
    heard = {what: {said(wire.answer()) for wire in wires} for what, wires in asked.items()}
    assert heard == {what: allowed for what, (_, allowed) in REQUESTS.items()}
    assert {row[1] for row in seats_of(db, org, event).values()} == {hold["hold_id"] for hold in won}
    prove(event, holds + won)


def hold_all(node, org, event, name, seats):
    """The holds of so many users, each of a seat of its own."""
    def buy(number):
        answer = yield hold_shot(Client(node, org, f"{name}-{number}"), event, f"A-{number + 1}")
        return answer.expect(201).json

    return drive([buy(number) for number in range(seats)])


def test_no_yes_that_was_true_before_it_slept_is_said_after(sleeper, admin, db, org, prove):
    """It is stopped in the middle of a crowd, whose holds are over when it wakes: nobody is told that they have one.
    What stops between its last look at the clock and its writing can't know better: not twice in a row."""
    one_of(2, lambda _: sleep_twice_in_a_crowd(sleeper, admin, db, org, prove))


def sleep_twice_in_a_crowd(sleeper, admin, db, org, prove):
    event = admin.make_event(1000, policy={"hold_ttl": 1})
    stale, told = [], []

    def buyer(number):
        user = Client(sleeper, org, f"buyer-{number}")
        for n in range(number, 1000, 50):
            answer = yield hold_shot(user, event, f"A-{n + 1}", cart=f"cart-{n}")
            now = time.time()
            if answer.status == 201:
                told.append(answer.json)
                if now > over_at(answer.json) + READ_WITHIN_S:
                    stale.append((now, answer.json))
            else:
                assert (answer.status, answer.code) in {(409, "hold_expired"), (503, "store_unavailable"),
                                                        (503, "outcome_unknown"), (409, "seat_contended")}, answer

    def freezer():
        for _ in range(2):
            enough = len(told) + 40
            while len(told) < enough and len(told) < 900:
                yield shot(admin, "GET", "/health")
            sleeper.pause()
            began = time.monotonic()
            while time.monotonic() < began + 2.5:
                yield shot(admin, "GET", "/health")  # of the other node
            sleeper.resume()

    drive([freezer()] + [buyer(number) for number in range(50)])
    assert len(told) > 100
    await_free(db, org, event)
    prove(event, told, complete=False)
    if stale:
        raise TooLate(f"{len(stale)} said after their end, such as {stale[0]}")
