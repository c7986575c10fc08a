"""A steady load that says what it sees: what each buyer was told, how long it took, and how much went through.

    with SteadyLoad(nodes, org, event) as load:     # it buys in a thread of its own
        before = load.measure(4)
        redis.kill()
        during = load.measure(3)
        redis.start()
        load.await_rate(0.9 * before, within=5)
    load.assert_as_told(db)

Each buyer has seats of its own, so that it knows what every answer must be. It holds one, looks at it, extends it,
lets a rival try, and gives it back, again and again; one it keeps, one it buys. Where it isn't told how a request
went it asks again until it is: answers of 503 and lost ones, which `excuses` must name.
"""

import collections
import itertools
import random
import statistics
import threading
import time

from support.bystander import all_rows
from support.client import Client
from support.swarm import Swarm, allow_descriptors, hold_shot, pause, shot
from support.waiting import wait_until

LOST = "lost"  # the connection ended without an answer
STORE_AWAY = {"store_unavailable", "outcome_unknown", "seat_contended"}
RETRY_S = 0.1
SLACK_S = 2  # of a busy machine


class Told:
    """What a buyer knows of a hold: the last status and end that it was told; None where it isn't sure."""

    def __init__(self, hold):
        self.hold = hold
        self.seat = hold["seats"][0]["seat_id"]
        self.status, self.until = hold["status"], hold["expires_at"]


class SteadyLoad:
    def __init__(self, nodes, org, event, connections=200, seats_each=4, excuses=(), pace_s=0.0):
        """The event must have connections * seats_each seats A-1, A-2, ..., and holds that outlive the load.

        pace_s: how long each buyer takes from hold to hold, where it isn't the servers that take longer; 0: no pause.
        A load below what the machine can do shows what a fault takes away, whatever else the machine is doing.
        """
        self.nodes, self.org, self.event = nodes, org, event
        self.connections, self.seats_each, self.pace_s = connections, seats_each, pace_s
        self.excuses = set(excuses)
        self.told = []  # Told of each hold that somebody was granted
        self.granted_at = []
        self.wrong = []  # answers that nothing explains
        self.excused = collections.Counter()
        self.slowest = (0.0, None)
        self._steady = 0  # buyers who have been through their first lap
        self._over = threading.Event()
        self._failure = None
        self._swarm = Swarm([self._buyer(number) for number in range(connections)], timeout=600)
        self._thread = threading.Thread(target=self._run, daemon=True)

    # --- life ------------------------------------------------------------------------------------------------

    def __enter__(self):
        allow_descriptors()
        self._thread.start()
        # The first holds come all at once: the load is steady when each buyer has been through them.
        wait_until(lambda: self._steady >= self.connections or not self._thread.is_alive(), timeout=60,
                   what="all buyers have begun")
        self.measure(1)
        return self

    def __exit__(self, kind, *_):
        self._over.set()
        self._thread.join(60)
        if kind is None and self._failure is not None:
            raise self._failure

    def _run(self):
        try:
            self._swarm.run()
        except BaseException as failure:  # whatever it is, the test is told
            self._failure = failure

    @property
    def lost(self):
        """How many requests were sent and never answered; those that found nobody to connect to don't count."""
        return self._swarm.lost

    # --- how much goes through ---------------------------------------------------------------------------------

    def measure(self, seconds):
        """Lets it run and returns the median of holds granted in a second, over these seconds."""
        began = time.monotonic()
        self._sleep_until(began + seconds)
        counts = [self._granted(began + second, 1) for second in range(max(1, int(seconds)))]
        return statistics.median(counts)

    def await_rate(self, rate, within):
        """Waits until `rate` holds a second are granted, over two seconds that begin `within` so many from now."""
        began, best = time.monotonic(), 0
        for half_seconds in itertools.count():
            start = began + half_seconds / 2
            if start > began + within:
                raise AssertionError(f"not {rate:.0f} holds a second within {within} s, {best:.0f} at best")
            self._sleep_until(start + 2)
            best = max(best, self._granted(start, 2) / 2)
            if best >= rate:
                return half_seconds / 2

    def _sleep_until(self, moment):
        while (left := moment - time.monotonic()) > 0:
            assert self._thread.is_alive(), f"the load has ended: {self._failure!r}"
            time.sleep(min(left, 0.2))

    def _granted(self, since, seconds):
        return sum(since <= at < since + seconds for at in self.granted_at)

    # --- what a buyer does ---------------------------------------------------------------------------------------

    def _buyer(self, number):
        chance = random.Random(number)
        seats = [f"A-{number * self.seats_each + n + 1}" for n in range(self.seats_each)]
        user, rival = Client(self.nodes[0], self.org, f"buyer-{number}"), Client(self.nodes[0], self.org, "rival")
        kept = yield from self._hold(number, user, seats[0])
        bought = yield from self._hold(number, user, seats[1])
        yield pause(chance.random() * self.pace_s)
        for lap in itertools.count():
            if self._over.is_set():
                return
            began = time.monotonic()
            told = yield from self._hold(number, user, seats[2 + lap % (self.seats_each - 2)])
            if told is None:
                continue  # what that means has been noted
            what = chance.choice(["look", "rival", "extend", "", "", ""])
            if what == "look":
                yield from self._look(number, user, told)
            elif what == "rival":
                yield from self._rival(number, rival, told)
            elif what == "extend":
                yield from self._extend(number, user, chance.choice([told, kept or told]))
            yield from self._end(number, user, told, "DELETE", "", "cancelled")
            if lap == 3 and bought is not None:
                yield from self._end(number, user, bought, "POST", "/confirm", "converted")
            self._steady += lap == 0
            yield pause(max(0.0, began + self.pace_s - time.monotonic()))

    def _ask(self, number, user, make_shot):
        """The answer that says how it went; None: the load is over before there was one. A balancer's turn comes
        after each try that failed."""
        for turn in itertools.count(number):
            began = time.monotonic()
            a_shot = make_shot(user.at(self.nodes[turn % len(self.nodes)]))
            answer = yield a_shot
            took = time.monotonic() - began
            if took > self.slowest[0]:
                self.slowest = (took, f"{request_in_short(a_shot)} -> {answer!r}")
            code = LOST if answer is None else answer.code
            if code != LOST and answer.status != 503 and code != "seat_contended":
                return answer
            self.excused[code] += 1
            if code not in self.excuses:
                self._wrong(a_shot, answer)
            if self._over.is_set():
                return None
            yield pause(RETRY_S)

    def _hold(self, number, user, seat):
        answer = yield from self._ask(number, user, lambda at: hold_shot(at, self.event, seat, cart=seat))
        if answer is None:
            return None
        if answer.status not in (200, 201) or answer.json["status"] != "active":
            self._wrong(f"{user.user} holds {seat}", answer)
            return None
        self.granted_at.append(time.monotonic())
        told = Told(answer.json)
        self.told.append(told)
        return told

    def _look(self, number, user, told):
        path = f"/api/events/{self.event}/seats/{told.seat}"
        answer = yield from self._ask(number, user, lambda at: shot(at, "GET", path))
        if answer and (answer.status != 200 or answer.json["status"] != "held" or not answer.json.get("mine")):
            self._wrong(f"{user.user} has {told.seat} and looks", answer)

    def _rival(self, number, rival, told):
        answer = yield from self._ask(number, rival, lambda at: hold_shot(at, self.event, told.seat))
        if answer and answer.code != "seat_taken":
            self._wrong(f"a rival wants {told.seat}", answer)

    def _extend(self, number, user, told):
        before, told.until = told.until, None
        path = f"/api/holds/{told.hold['hold_id']}/extend"
        answer = yield from self._ask(number, user, lambda at: shot(at, "POST", path, {"seconds": 1}))
        if answer is None:
            return
        if answer.status != 200 or (before and answer.json["expires_at"] <= before):
            self._wrong(f"{user.user} extends {told.seat}", answer)
            return
        told.until = answer.json["expires_at"]

    def _end(self, number, user, told, method, path, status):
        told.status = None
        path = f"/api/holds/{told.hold['hold_id']}{path}"
        answer = yield from self._ask(number, user, lambda at: shot(at, method, path, {}))
        if answer is None:
            return
        if answer.status != 200 or answer.json["status"] != status:
            self._wrong(f"{user.user}: {method} {path}", answer)
            return
        told.status = status

    def _wrong(self, what, answer):
        what = request_in_short(what) if hasattr(what, "data") else what
        self.wrong.append(f"{time.strftime('%H:%M:%S')} {what} -> {answer!r}")

    # --- the proof -----------------------------------------------------------------------------------------------

    def assert_as_told(self, db, request_timeout_s=5):
        """No answer was wrong, none came late (but for a machine that stood still), and what was told last is what stands."""
        assert not self.wrong, f"{len(self.wrong)} wrong answers, the first: " + "\n".join(self.wrong[:5])
        assert self.slowest[0] <= request_timeout_s + SLACK_S, self.slowest
        assert_as_told(db, self.org, self.event, self.told)


def request_in_short(a_shot):
    """Its first line and its body."""
    head, _, body = a_shot.data.decode().partition("\r\n\r\n")
    return f"{a_shot.node.node_id}: {head.splitlines()[0]} {body}"


def lines_of_holds(db, org, event):
    """{(hold, seat): (user, status, end as it is told)}"""
    return {(hold, seat): (user, status, until) for hold, seat, user, status, until in all_rows(db, """
        SELECT hold_id::text, seat_id, user_id, status::text, to_char(
            date_trunc('milliseconds', held_until) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        FROM seat_holds WHERE org_id = %s AND event_id = %s AND seat_id IS NOT NULL""", (org, event))}


def assert_as_told(db, org, event, told):
    """Each of `told` stands as its user was told last, with its end."""
    lines = lines_of_holds(db, org, event)
    for each in told:
        key = (each.hold["hold_id"], each.seat)
        assert key in lines, f"{key} was granted, and is not there"
        user, status, until = lines[key]
        assert user == each.hold["user_id"], (key, user, each.hold)
        assert each.status in (None, status), (key, f"told {each.status}, is {status}")
        assert each.until in (None, until), (key, f"told {each.until}, is {until}")
