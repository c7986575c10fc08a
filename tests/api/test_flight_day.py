"""A passenger's day as seed 003 tells it: login, map, hold, a change of mind, confirm, a heavy bag, its payment.

What bags may weigh is in test_baggage.py, who may do what to whom in test_passenger_token.py.
"""

import uuid

import pytest

from support.cabin import confirm, held, make_flight, own, seatmap, states
from support.checkins import api_keys, checked_in, get, login, weigh
from support.checkouts import WEBHOOK_SECRET, deliver
from support.client import Client
from support.contract import check_problem

ORG = f"org-{uuid.uuid4().hex[:12]}"
NODE_SETTINGS = {"api_keys": api_keys(ORG), "webhook_secret": WEBHOOK_SECRET, "request_timeout": "30s"}


@pytest.fixture(name="org")
def fixture_org():
    """The organization whose front has a key."""
    return ORG


def events(admin, flight):
    """[(event, seat, actor)], the oldest first"""
    told = admin.get(f"/flights/{flight}/events").expect(200).json["events"]
    return [(event["eventType"], event["seatId"], event["actor"]) for event in reversed(told)]


@pytest.mark.parametrize("hop", [False, True], ids=["at one node", "at two nodes"])
def test_the_whole_day(node, start_node, admin, prove, hop):
    elsewhere = start_node(**NODE_SETTINGS) if hop else node
    flight, pnr = make_flight(admin), f"PNR{uuid.uuid4().hex[:8].upper()}"
    checkin = checked_in(admin, flight, pnr, "Lovelace")
    said = login(node, ORG, pnr.lower(), " lovelace ").expect(200).json
    passenger = Client(node, ORG, pnr, token=said["token"])
    assert set(said) == {"token", "checkinId", "flightId", "state", "seatMap", "currentSeat"}
    assert (said["flightId"], said["state"], said["currentSeat"]) == (flight, "IN_PROGRESS", None)
    assert said["checkinId"] == checkin["checkinId"]
    assert said["seatMap"] == list(seatmap(passenger, flight).values())

    first = held(passenger, flight, "1A", passengerId=pnr)                      # at the window ...
    assert own(passenger, flight) == {"1A"}
    second = held(passenger.at(elsewhere), flight, "2C", passengerId=pnr)       # ... or rather at the aisle
    assert states(passenger.at(elsewhere), flight) == {"2C": "HELD"}
    check_problem(confirm(passenger, first["holdId"], passengerId=pnr), "hold_not_found")
    assert confirm(passenger, second["holdId"], passengerId=pnr).expect(200).json == \
        {"seatId": "2C", "flightId": flight, "state": "CONFIRMED"}
    again = login(node, ORG, pnr, "Lovelace").expect(200).json
    assert (again["currentSeat"], again["checkinId"]) == ("2C", said["checkinId"])
    [mine] = [seat for seat in again["seatMap"] if seat["heldBy"] is not None]
    assert mine == {"seatId": "2C", "state": "CONFIRMED", "heldBy": pnr, "holdExpiresAt": None}

    bag = weigh(passenger.at(elsewhere), checkin, 32).expect(200).json
    assert (bag["checkinId"], bag["state"]) == (checkin["checkinId"], "WAITING_FOR_PAYMENT")
    assert get(passenger, checkin).json["state"] == "WAITING_FOR_PAYMENT"
    paid = deliver(node, bag["paymentIntentId"], "succeeded", "key-1").expect(200)
    assert paid.json == {"intentId": bag["paymentIntentId"], "status": "succeeded"}
    assert deliver(elsewhere, bag["paymentIntentId"], "succeeded", "key-1").expect(200).json == paid.json
    assert get(passenger.at(elsewhere), checkin).json["state"] == "COMPLETED"
    assert events(admin, flight) == [("HELD", "1A", pnr), ("CANCELLED", "1A", pnr), ("HELD", "2C", pnr),
                                     ("CONFIRMED", "2C", pnr)]
    prove(flight)


def test_a_day_with_a_card_that_fails_first(node, admin):
    flight, pnr = make_flight(admin), f"PNR{uuid.uuid4().hex[:8].upper()}"
    checkin = checked_in(admin, flight, pnr)
    passenger = Client(node, ORG, pnr, token=login(node, ORG, pnr, "Jansen").expect(200).json["token"])
    bag = weigh(passenger, checkin, 32).expect(200).json
    deliver(node, bag["paymentIntentId"], "failed", "key-1").expect(200)
    assert get(passenger, checkin).json["state"] == "IN_PROGRESS"
    bag = weigh(passenger, checkin, 32).expect(200).json
    deliver(node, bag["paymentIntentId"], "succeeded", "key-2").expect(200)
    assert get(passenger, checkin).json["state"] == "COMPLETED"
