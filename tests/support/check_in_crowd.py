"""A crowd that checks in for a flight: more passengers than seats, some of whom change their minds."""

import random

from support.swarm import pause, shot


MANY = 100  # who wait before any seat is given back


class Passenger:
    """One who takes the first seat that is to be had, or waits; and may give it back. Asks `clients` in turn: what one
    of them doesn't answer (its node was killed) the next is asked."""

    def __init__(self, crowd, clients, event, seats, dice, changes_mind=False):
        self.crowd = crowd  # all of them
        self.clients, self.event = list(clients), event
        self.seats = dice.sample(seats, len(seats))
        self.changes_mind, self.delay = changes_mind, dice.random() * 0.5
        self.user = clients[0].user
        self.seat = self.entry = None
        self.gave_back = False
        self.waits = False

    def _ask(self, method, path, json=None):
        while True:
            answer = yield shot(self.clients[0], method, path, json)
            if answer is not None and answer.status not in (429, 503):
                return answer
            if answer is None:
                self.clients.append(self.clients.pop(0))
            yield pause(0.05)

    def check_in(self):
        """For swarm.drive."""
        for place in self.seats:
            held = yield from self._ask("POST", "/api/holds", {
                "event_id": self.event, "cart_token": self.user, "seat_ids": [place]})
            if held.status not in (200, 201):
                continue
            confirmed = yield from self._ask("POST", f"/api/holds/{held.json['hold_id']}/confirm", {})
            if confirmed.status == 200:
                self.seat = place
                break
        if self.seat is None:
            yield from self._wait()
        elif self.changes_mind:
            while sum(other.waits for other in self.crowd) < MANY:
                yield pause(0.05)
            yield pause(self.delay)
            yield from self._give_back()

    def _wait(self):
        answer = yield from self._ask("POST", f"/api/events/{self.event}/waitlist", {})
        assert answer.status in (201, 409), answer
        self.waits = True
        if answer.status == 201:
            self.entry = answer.json

    def _give_back(self):
        answer = yield from self._ask("POST", f"/flights/{self.event}/seats/{self.seat}/cancel", {"reason": "plans changed"})
        assert answer.status in (200, 404), answer  # 404: the answer of the first try was lost
        self.gave_back = True


def crowd(admin, nodes, event, seats, passengers, changing, seed):
    """That many passengers, of whom about `changing` of those with a seat give it back, once many wait for one."""
    dice = random.Random(seed)
    places = [place["seat_id"] for place in seats]
    people = []
    for n in range(passengers):
        at = dice.sample(nodes, len(nodes))
        user = admin.as_user(f"passenger-{n:03}")
        people.append(Passenger(people, [user.at(node) for node in at], event, places, dice, dice.random() < changing))
    return people
