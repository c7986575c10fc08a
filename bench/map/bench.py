"""map: what a poller of a seat map of 50,000 seats costs while 1,000 seats change a second.

Pollers ask each second what has changed since their version, and are told that; others ask for the whole map as often as
they get it, which is what each change would cost without differences. CPU is the node's own time beyond what the
same changes take when nobody looks. The ratio is what a whole map costs to what a difference does.
"""

import os
import random
import threading
import time

import common
from support.client import Client
from support.swarm import Swarm, allow_descriptors, hold_shot, pause, shot

SEATS, CHANGES_PER_S, POLLERS, READERS = 50_000, 1_000, 400, 4
SEATS_PER_HOLD = 8
BUYERS = 10
EVENT = "large"
GZIP = {"Accept-Encoding": "gzip"}
HOUSE = f"""
INSERT INTO events (org_id, event_id, kind, name, status, hold_ttl, extend_by, max_hold, max_seats_per_hold)
VALUES ('{common.ORG}', '{EVENT}', 'event', 'Large', 'on_sale', 900, 300, 1200, 8);
INSERT INTO seats (org_id, event_id, seat_id, section, "row", number, price, x, y)
SELECT '{common.ORG}', '{EVENT}', s::text, 'block-' || s / 1000, (s / 40 % 25)::text, (s % 40)::text, 5000, s % 40, s / 40
FROM generate_series(0, {SEATS - 1}) s;
"""


class Costs:
    """What the node's CPU, and its clients, had between two moments."""

    def __init__(self):
        self.cpu_s = self.seconds = 0.0
        self.answers = self.bytes = self.changes = 0

    def per_answer(self, idle):
        """CPU of one answer, where `idle` was the same without any."""
        return max(0.0, self.cpu_s - idle.cpu_s * self.changes / idle.changes) / max(1, self.answers)


class Crowd:
    """Buyers at a steady pace, and readers of one kind beside them."""

    def __init__(self, node, readers=()):
        self.node, self.over, self.costs = node, False, Costs()
        self.failure = None
        swarm = [self.buyer(number) for number in range(BUYERS)] + [read(self, n) for n, read in enumerate(readers)]
        self._thread = threading.Thread(target=self._run, args=(Swarm(swarm, 600),), daemon=True)

    def _run(self, swarm):
        try:
            swarm.run()
        except BaseException as failure:
            self.failure = failure

    def measure(self, seconds):
        self._thread.start()
        time.sleep(3)  # everybody has a version, and the pace is steady
        began, cpu_s = time.monotonic(), cpu_time_s(self.node)
        self.costs = Costs()
        time.sleep(seconds)
        costs = self.costs
        costs.seconds, costs.cpu_s = time.monotonic() - began, cpu_time_s(self.node) - cpu_s
        self.over = True
        self._thread.join(60)
        if self.failure is not None:
            raise self.failure
        return costs

    def buyer(self, number):
        """Holds eight seats and gives them back: sixteen changes."""
        chance = random.Random(number)
        user = Client(self.node, common.ORG, f"buyer-{number}")
        mine = range(number, SEATS, BUYERS)
        turn_s, due = 2 * SEATS_PER_HOLD * BUYERS / CHANGES_PER_S, time.monotonic()
        while not self.over:
            held = yield hold_shot(user, EVENT, *(str(seat) for seat in chance.sample(mine, SEATS_PER_HOLD)))
            gone = yield shot(user, "DELETE", f"/api/holds/{held.expect(201).json['hold_id']}")
            gone.expect(200)
            self.costs.changes += 2 * SEATS_PER_HOLD
            due += turn_s
            yield pause(max(0.0, due - time.monotonic()))

    def note(self, answer):
        self.costs.answers += 1
        self.costs.bytes += len(answer.body)


def poll(headers):
    """A page that asks each second what has changed."""
    def read(crowd, number):
        user, path = Client(crowd.node, common.ORG, f"poller-{number}"), f"/api/events/{EVENT}/seats"
        yield pause(number / POLLERS)
        answer = yield shot(user, "GET", path, headers=GZIP)
        while not crowd.over:
            # The version that it has is all that it needs to know; it stands in the tag too.
            version = answer.expect(200).headers["ETag"].removeprefix(f'W/"{EVENT}-').removesuffix('"')
            yield pause(1)
            answer = yield shot(user, "GET", f"{path}?since={version}", headers=headers)
            crowd.note(answer)
    return read


def fetch(crowd, number):
    """The whole map again and again: each is of a newer position."""
    user = Client(crowd.node, common.ORG, f"reader-{number}")
    while not crowd.over:
        answer = yield shot(user, "GET", f"/api/events/{EVENT}/seats", headers=GZIP)
        crowd.note(answer.expect(200))
        yield pause(0.02)


def cpu_time_s(node):
    with open(f"/proc/{node.process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(context):
    allow_descriptors()
    url = context.fresh_house()
    common.execute(url, HOUSE)
    common.execute(url, "VACUUM (ANALYZE) seats")
    node = context.node(url, rate_limits="off")
    whole, delta, notes = [], [], []
    node.start()
    try:
        for _ in range(context.runs):
            idle = Crowd(node).measure(context.duration_s)
            kinds = {"plain difference": [poll({})] * POLLERS, "gzipped difference": [poll(GZIP)] * POLLERS,
                     "whole map, gzipped": [fetch] * READERS}
            costs = {name: Crowd(node, readers).measure(context.duration_s) for name, readers in kinds.items()}
            for name, each in costs.items():
                say(name, each, idle)
            delta.append(1e6 * costs["plain difference"].per_answer(idle))
            whole.append(1e6 * costs["whole map, gzipped"].per_answer(idle))
            notes.append({name: {"answers": each.answers, "bytes": each.bytes, "cpu_us": 1e6 * each.per_answer(idle),
                                 "changes_per_s": each.changes / each.seconds} for name, each in costs.items()})
    finally:
        node.stop()
    context.drop_house(url)
    outcome = common.result("map", "CPU of an answer about a map that changes 1,000 times a second (less is better)",
                            "us of CPU", ("what changed in a second", delta), [("the whole map", whole)],
                            {"seats": SEATS, "pollers": POLLERS, "readers": READERS, "seconds": context.duration_s,
                             "runs": notes})
    return outcome | {"ratio": 1 / outcome["ratio"]}


def say(name, costs, idle):
    common.say(f"  {name}: {costs.answers / costs.seconds:,.0f} answers/s, {costs.bytes / max(1, costs.answers):,.0f} bytes and "
               f"{1e6 * costs.per_answer(idle):,.0f} us of CPU each; {costs.changes / costs.seconds:,.0f} changes/s, "
               f"{100 * costs.cpu_s / costs.seconds:.0f} % of a core ({100 * idle.cpu_s / idle.seconds:.0f} % when nobody looks)")
