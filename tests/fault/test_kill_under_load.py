"""Nodes are killed and frozen while everybody buys: what a client was told stands, and nothing is left hanging."""

import collections
import random
import time

from support.client import Client
from support.swarm import drive, hold_shot, shot
from support.truth import lines_of, seats_of
from support.waiting import wait_until

SEATS, BUYERS = 2000, 60


class Market:
    """Buyers who hold seats of their own at two nodes, some cancel and some confirm; what they were told."""

    def __init__(self, admin, nodes, seconds, buyers=BUYERS):
        self.event = admin.make_event(SEATS, policy={"hold_ttl": 300})
        self.nodes, self.stop, self.buyers = nodes, time.monotonic() + seconds, buyers
        self.told, self.unknown = [], collections.Counter()
        self.final = {}  # hold -> the last status that its user was told
        self.org = admin.org

    def buyer(self, number):
        user = Client(self.nodes[number % 2], self.org, f"buyer-{number}")
        draw = random.Random(number)
        for n in range(number, SEATS, self.buyers):
            if time.monotonic() > self.stop:
                return
            answer = yield hold_shot(user, self.event, f"A-{n + 1}", cart=f"cart-{n}")
            if not self.known(answer) or answer.status != 201:
                continue
            hold = answer.json
            self.told.append(hold)
            self.final[hold["hold_id"]] = "active"
            what = draw.choice(["keep", "keep", "cancel", "confirm"])
            if what == "keep":
                continue
            path = f"/api/holds/{hold['hold_id']}"
            self.final[hold["hold_id"]] = None  # until we hear of it
            end = shot(user, "DELETE", path) if what == "cancel" else shot(user, "POST", f"{path}/confirm", {})
            answer = yield end
            if self.known(answer) and answer.status == 200:
                self.final[hold["hold_id"]] = answer.json["status"]

    def known(self, answer):
        """Whether this is an answer that says how it went."""
        if answer is not None and answer.status != 503:
            assert answer.status in (200, 201), answer
            return True
        self.unknown[answer and answer.code] += 1
        return False

    def assert_true(self, db):
        lines = lines_of(db, self.org, self.event)
        for hold in self.told:
            key = (hold["hold_id"], hold["seats"][0]["seat_id"])
            assert key in lines, f"{key} was told with 201"
            user, status = lines[key]
            assert user == hold["user_id"]
            assert self.final[hold["hold_id"]] in (None, status), (key, self.final[hold["hold_id"]], status)


def test_a_node_that_is_killed_under_load_loses_nothing_it_told(node, start_node, admin, db, prove):
    second = start_node()
    market = Market(admin, [node, second], seconds=60)

    def killer():
        for turn in range(3):
            enough = len(market.told) + 100
            while len(market.told) < enough and time.monotonic() < market.stop:
                yield shot(admin, "GET", "/health")
            second.kill()
            # As a container comes back; under its old name it waits until its row is old.
            second.node_id = f"{second.log_path.stem}-{turn}"
            second.start()
        market.stop = time.monotonic() + 1

    drive([killer()] + [market.buyer(number) for number in range(BUYERS)])
    assert len(market.told) >= 300
    assert market.unknown[None] > 0, "nobody noticed"
    market.assert_true(db)
    prove(market.event, market.told, complete=False)


def test_a_node_that_freezes_under_load_holds_nobody_up_for_long(node, start_node, admin, db, org, prove):
    """Postgres ends its open transactions; other seats stay sellable meanwhile, and its own afterwards."""
    second = start_node()
    frozen = Market(admin, [second, second], seconds=60)
    market = Market(admin, [node, node], seconds=60, buyers=20)

    def freezer():
        # Those of the node that goes on have the most before them, whoever is quicker until then.
        while len(frozen.told) < 50 and len(market.told) < 1000:
            yield shot(admin, "GET", "/health")
        second.pause()
        before, began = len(market.told), time.monotonic()
        while time.monotonic() < began + 3:
            yield shot(admin, "GET", "/health")
        assert len(market.told) > before + 50, "the other node stood still too"
        second.resume()
        market.stop = frozen.stop = time.monotonic() + 1

    drive([freezer()] + [market.buyer(number) for number in range(20)] + [frozen.buyer(number) for number in range(20)])
    for each in (market, frozen):
        each.assert_true(db)
        prove(each.event, each.told, complete=False)
    rival = Client(node, org, "rival")
    free = [seat for seat, (status, _, _) in seats_of(db, org, frozen.event).items() if status == "available"]
    rival.hold_one(frozen.event, free[0]).expect(201)


def test_holds_of_a_killed_node_end_at_their_time(start_node, admin, db, org, prove):
    second = start_node()
    event = admin.make_event(200, policy={"hold_ttl": 2})

    def buy(number):
        user = Client(second, org, f"user-{number}")
        answer = yield hold_shot(user, event, f"A-{number + 1}")
        return answer.expect(201).json

    told = drive([buy(number) for number in range(200)])
    second.kill()
    wait_until(lambda: {row[0] for row in seats_of(db, org, event).values()} == {"available"}, timeout=20)
    prove(event, told)
