"""200 users with 8 connections each do everything at random on 500 seats; afterwards every answer is compared.

What is proved: `verify` and the audit checker find nothing; each 201 has its rows and no row is without its answer;
each seat that a confirm said is sold is sold to that hold, and no other is; the counts that clients see are those of
Postgres; whoever was told "taken" or "sold" was told so while it was true. HOLDFAST_LONG=1 takes a minute for it.
"""

import bisect
import collections
import random
import time

import pytest

from support.bystander import all_rows
from support.client import Client
from support.house import LONG
from support.swarm import drive, hold_shot, shot
from support.truth import seats_of, takes_of, takes_told
from support.waiting import wait_until

NODE_SETTINGS = {"request_timeout": "30s", "reaper_interval_ms": 1000}  # a slow machine is no fault
USERS, CONNECTIONS, SEATS, SECONDS = 200, 8, 500, 60 if LONG else 10
POLICY = {"hold_ttl": 2, "extend_by": 1, "max_hold": 6, "max_seats_per_hold": 5}

EXPECTED = {
    "hold": {(201, None), (200, None), (409, "seat_taken"), (409, "seat_sold"), (409, "seat_contended"),
             (422, "too_many_seats"), (409, "hold_expired")},
    "extend": {(200, None), (409, "hold_expired"), (409, "hold_not_active"), (403, "not_hold_owner")},
    "confirm": {(200, None), (409, "hold_expired"), (409, "hold_not_active"), (403, "not_hold_owner")},
    "cancel": {(200, None), (409, "hold_not_active"), (403, "not_hold_owner")},
    "transfer": {(200, None), (409, "hold_expired"), (409, "hold_not_active"), (403, "not_hold_owner")},
    "remove": {(200, None), (409, "hold_expired"), (409, "hold_not_active"), (403, "not_hold_owner"),
               (404, "seat_not_found")},
    "patch": {(200, None), (409, "seat_taken"), (409, "seat_sold"), (409, "seat_contended"), (409, "hold_expired"),
              (409, "hold_not_active"), (403, "not_hold_owner"), (404, "seat_not_found"), (422, "too_many_seats")},
    "get": {(200, None), (404, "hold_not_found")},
}


class World:
    """What all actors share: whose holds there are, and what was told."""

    def __init__(self, org, event, nodes, seed):
        self.org, self.event, self.nodes = org, event, nodes
        self.users = [Client(nodes[0], org, f"user-{n}") for n in range(USERS)]
        self.holds = [[] for _ in range(USERS)]  # user -> holds that they may still have: (id, seats)
        self.created = []  # bodies of 201
        self.sold = {}  # hold -> seats with tickets
        self.refused = []  # (seat, code, user, asked, answered) by the wall clock, which is the database's here
        self.seen = collections.Counter()
        self.seed = seed

    def visitor(self, number):
        """One of a user's connections."""
        index = number % USERS
        user = self.users[index].at(self.nodes[number // USERS % len(self.nodes)])
        draw = random.Random(self.seed * 10007 + number)
        stop = time.monotonic() + SECONDS
        while self.goes_on(stop):
            what, a_shot, detail = self.choose(draw, user, index)
            asked = time.time()
            answer = yield a_shot
            self.judge(what, answer, detail, user, index, asked)

    def goes_on(self, stop):
        """Without each kind of change it proves little: where the machine is slow, until each has happened."""
        late_s = time.monotonic() - stop
        return late_s < 0 or (late_s < 40 and {what for what, *_ in self.seen} != set(EXPECTED))

    def choose(self, draw, user, index):
        mine = self.holds[index]
        what = draw.choices(["hold", "extend", "patch", "cancel", "transfer", "remove", "confirm", "get"],
                            [50, 8, 10, 14, 5, 6, 0.4, 2])[0]
        if what == "hold" or not mine:
            return "hold", hold_shot(user, self.event, *self.pick(draw, draw.choice([1, 1, 2, 3])),
                                     cart=f"cart-{draw.random()}"), None
        hold, seats = mine[draw.randrange(len(mine))] if draw.random() < 0.7 else mine[-1]
        path = f"/api/holds/{hold}"
        if what == "cancel":
            return what, shot(user, "DELETE", path), (hold, seats)
        if what == "remove":
            return what, shot(user, "DELETE", f"{path}/seats/{draw.choice(seats)}"), (hold, seats)
        if what == "transfer":
            to = draw.randrange(USERS)
            return what, shot(user, "POST", f"{path}/transfer", {"to_user_id": self.users[to].user}), (hold, seats, to)
        if what == "patch":
            body = {"add_seat_ids": self.pick(draw, 1)} | (
                {"remove_seat_ids": [seats[0]]} if draw.random() < 0.3 and len(seats) > 1 else {})
            if set(body["add_seat_ids"]) & set(body.get("remove_seat_ids", [])):
                del body["remove_seat_ids"]
            return what, shot(user, "PATCH", path, body), (hold, seats)
        if what == "get":
            return what, shot(user, "GET", path), (hold, seats)
        return what, shot(user, "POST", f"{path}/{what}", {}), (hold, seats)

    def pick(self, draw, count):
        return [f"A-{n}" for n in draw.sample(range(1, SEATS + 1), count)]

    def judge(self, what, answer, detail, user, index, asked):
        assert answer is not None, f"{what}: the connection ended without an answer"
        code = (answer.status, answer.code)
        assert code in EXPECTED[what], f"{what}: {answer!r}"
        self.seen[what, *code] += 1
        if code[1] in ("seat_taken", "seat_sold"):
            answered = time.time()
            self.refused += [(seat["seat_id"], seat["code"], user.user, asked, answered)
                             for seat in answer.json["seats"] if seat["code"] in ("seat_taken", "seat_sold")]
        if what == "hold" and answer.status == 201:
            hold = answer.json
            self.created.append(hold)
            self.holds[index].append((hold["hold_id"], [seat["seat_id"] for seat in hold["seats"]]))
            del self.holds[index][:-6]
        if what == "transfer" and answer.status == 200:
            self.holds[detail[2]].append(detail[:2])
        if what == "confirm" and answer.status == 200:
            self.sold[detail[0]] = {ticket["seat_id"] for ticket in answer.json["tickets"]}


def lives_of(db, org, event):
    """{seat: ([begins], [ends])} of the lives of its holds, by the audit log; a sale has no end."""
    lives = collections.defaultdict(lambda: ([], []))
    for seat, action, at in all_rows(db, """
            SELECT seat_id, action::text, extract(epoch FROM at) FROM audit_log
            WHERE org_id = %s AND event_id = %s AND action IN ('seat_held', 'seat_released')
            ORDER BY seat_id, version""", (org, event)):
        begins, ends = lives[seat]
        if action == "seat_held":
            begins.append(float(at))
            ends.append(float("inf"))
        else:
            ends[-1] = float(at)
    return lives


def assert_refused_while_true(db, org, event, refused, slack_s):
    """Each refusal fell into the life of a hold; `slack_s`: how long a node may not know that it ended."""
    lives = lives_of(db, org, event)
    for seat, code, user, asked, answered in refused:
        begins, ends = lives[seat]
        last = bisect.bisect_right(begins, answered) - 1
        assert last >= 0 and ends[last] + slack_s >= asked, (
            f"{user} was told {code} for {seat} between {asked} and {answered}, "
            f"but nobody had it after {ends[last] if last >= 0 else 'ever'}")


def map_of(reader, event):
    return {seat["seat_id"]: seat["status"] for seat in reader.seats(event).expect(200).json["seats"]}


@pytest.mark.parametrize("count", [1, 2], ids=["one node", "two nodes"])
def test_everything_at_random_stays_true(count, node, start_node, admin, db, org, prove):
    nodes = [node] + [start_node(**NODE_SETTINGS) for _ in range(count - 1)]
    event = admin.make_event(SEATS, policy=POLICY)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    world = World(org, event, nodes, seed)
    drive([world.visitor(number) for number in range(USERS * CONNECTIONS)], timeout=SECONDS + 100)
    print(world.seen)
    assert {what for what, *_ in world.seen} == set(EXPECTED), "something never happened"

    # Answers and rows.
    told = set().union(*map(takes_told, world.created))
    stands = takes_of(db, org, event)
    assert not told - stands, sorted(told - stands)[:5]
    untold = {hold for hold, *_ in stands - told} - {hold["hold_id"] for hold in world.created}
    assert not untold, f"holds that nobody was told of: {sorted(untold)[:5]}"
    seats = seats_of(db, org, event)
    assert {seat: hold for seat, (status, hold, _) in seats.items() if status == "sold"} == {
        seat: hold for hold, tickets in world.sold.items() for seat in tickets}
    # The lease of a second, a read under way, and the commit that came after its `at`: on a busy machine a second.
    assert_refused_while_true(db, org, event, world.refused, 2.0 if count == 1 else 3.0)

    # In the end nothing is left but what was sold, and everybody counts alike.
    sold = sum(len(tickets) for tickets in world.sold.values())
    wait_until(lambda: collections.Counter(row[0] for row in seats_of(db, org, event).values()) ==
               collections.Counter({"available": SEATS - sold} | ({"sold": sold} if sold else {})), timeout=20)
    for each in nodes:
        reader = admin.at(each)
        wait_until(lambda: reader.occupancy(event).expect(200).json["sold"] == sold)
        wait_until(lambda: map_of(reader, event) == {seat: row[0] for seat, row in seats_of(db, org, event).items()},
                   what="the map is the table")
    prove(event)
