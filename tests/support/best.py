"""The best seats, by a reckoning of our own: what a house has, and what of it ought to be chosen."""

import itertools
import math

from support.client import seat
from support.swarm import shot


def best(client, event, quantity, headers=None, cart="cart-1", **more):
    return client.post(f"/api/events/{event}/holds/best", {"quantity": quantity, "cart_token": cart} | more,
                       headers=headers)


def best_shot(client, event, quantity, cart="cart-1", headers=None, **more):
    return shot(client, "POST", f"/api/events/{event}/holds/best", {"quantity": quantity, "cart_token": cart} | more,
                headers)


def chosen(answer):
    """The seats of a hold that was granted."""
    return sorted((one["seat_id"] for one in answer.expect(201).json["seats"]), key=place_of)


def place_of(seat_id):
    """"B-12" -> ("B", 12)"""
    row, _, number = seat_id.rpartition("-")
    return row, int(number)


def hall(rows, seats_each, coordinates=True, **more):
    """Rows A, B, ... of seats 1, 2, ...; each a step of one wide, each row two behind the one before."""
    return [seat(f"{chr(65 + row)}-{number}", row=chr(65 + row), number=number, **more,
                 **({"x": number, "y": 2 * row} if coordinates else {}))
            for row in range(rows) for number in range(1, seats_each + 1)]


def windows(free, quantity):
    """All choices of so many seats side by side among the free ones, in display order."""
    for seat_id in sorted(free, key=place_of):
        row, number = place_of(seat_id)
        window = [f"{row}-{n}" for n in range(number, number + quantity)]
        if all(one in free for one in window):
            yield window


def mean_distance(seats, focal):
    return sum(math.dist(place, focal) for place in seats) / len(seats)


def best_window(places, free, quantity, focal):
    """places: {seat: (x, y)}. The window of least mean distance, the first of equal ones; None: there is none."""
    ranked = [(round(mean_distance([places[one] for one in window], focal), 9), at, window)
              for at, window in enumerate(windows(free, quantity))]
    return min(ranked)[2] if ranked else None


def groups(seats):
    """How many groups of neighbours these seats are."""
    places = sorted(map(place_of, seats))
    return 1 + sum(a[0] != b[0] or b[1] - a[1] > 1 for a, b in itertools.pairwise(places))
