"""Flights in a few words: a cabin, and what passengers do with its seats in the words of seed 003.

    flight = make_flight(admin, rows=3)                 # 1A ... 3F
    hold = held(anna, flight, "1A")                     # 200, parsed
    confirm(anna, hold["holdId"]).expect(200)
    assert seatmap(anna, flight)["1A"] == {"seatId": "1A", "state": "CONFIRMED", "heldBy": anna.user, ...}
"""

import uuid

from support.client import seat
from support.swarm import shot

KINDS = {"A": "window", "B": "middle", "C": "aisle", "D": "aisle", "E": "middle", "F": "window"}


def cabin(rows, front=1):
    """Rows of A-F; the first `front` of them are the section front."""
    return [seat(f"{row}{letter}", "front" if row <= front else "economy", str(row), letter, type=kind)
            for row in range(1, rows + 1) for letter, kind in KINDS.items()]


def make_flight(admin, rows=3, **more):
    return admin.make_event(cabin(rows), event=f"FL-{uuid.uuid4().hex[:10]}", kind="flight", **more)


def hold(client, flight, seat_id, headers=None, **body):
    return client.post(f"/flights/{flight}/seats/{seat_id}/hold", body, headers=headers)


def held(client, flight, seat_id, **body):
    """A hold that must succeed, parsed."""
    return hold(client, flight, seat_id, **body).expect(200).json


def confirm(client, hold_id, headers=None, **body):
    return client.post(f"/holds/{hold_id}/confirm", body, headers=headers)


def confirmed(client, flight, seat_id, **body):
    """A seat that is held and confirmed; the hold's id."""
    hold_id = held(client, flight, seat_id, **body)["holdId"]
    confirm(client, hold_id, **body).expect(200)
    return hold_id


def cancel(client, flight, seat_id, headers=None, **body):
    return client.post(f"/flights/{flight}/seats/{seat_id}/cancel", body, headers=headers)


def seatmap(client, flight):
    """{seat: its entry}"""
    return {entry["seatId"]: entry for entry in client.get(f"/flights/{flight}/seatmap").expect(200).json}


def states(client, flight):
    """{seat: state} of all that are not AVAILABLE."""
    return {name: entry["state"] for name, entry in seatmap(client, flight).items() if entry["state"] != "AVAILABLE"}


def own(client, flight):
    """The seats that the map says are the caller's."""
    return {name for name, entry in seatmap(client, flight).items() if entry["heldBy"] is not None}


def flight_hold_shot(client, flight, seat_id, **body):
    return shot(client, "POST", f"/flights/{flight}/seats/{seat_id}/hold", body)
