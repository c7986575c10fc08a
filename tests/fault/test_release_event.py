"""An administrator releases a whole event: beside sales and new holds, and with whatever ends it in the middle.

HOLDFAST_LONG=1 takes 20,000 held seats of which 500 are sold meanwhile; otherwise a tenth.
"""

import concurrent.futures
import http.client
import random
import threading
import time

import pytest

from support.bystander import trigger
from support.client import Client, seat
from support.house import LONG, House
from support.releases import TIME_S, hold_all, release, released
from support.swarm import Swarm, allow_descriptors, drive, hold_shot, pause, shot
from support.tables import query, seat_statuses
from support.waiting import wait_until

pytestmark = pytest.mark.alone

SEATS, SOLD = (20_000, 500) if LONG else (2_000, 50)
SPARE = 400          # seats that nobody holds: new holds go on there
PROBES = 16          # who hold and cancel there, again and again
RIVALS = 16          # who want seats that are about to be free, one each after the other
HOLDERS = 64         # connections that hold the house before it begins
CALM_S = 6 if LONG else 2
NODE_SETTINGS = {"desks": 2}  # the fewest: a release leaves one thread to all other work


# --- the big one -----------------------------------------------------------------------------------------------


class Crowd:
    """Everybody but the administrator, in a thread of its own; remembers what each was told."""

    def __init__(self, node, org, event, holds, seed):
        self.node, self.org, self.event = node, org, event
        self.chance = random.Random(seed)
        self.buyers = self.chance.sample(holds, SOLD)
        self.waits = []                     # (when it was sent, seconds until the answer) of new holds
        self.looks = []                     # seconds that reads through the desk took
        self.new = []                       # holds that rivals were given
        self.sales = {}                     # hold -> answer of its confirm
        self.wrong = []
        self.selling, self.over = threading.Event(), threading.Event()
        self.sale_s = 0.0                   # over how long the sales are spread
        self._failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        allow_descriptors()
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.selling.set()
        self._thread.join(120)
        if kind is None and self._failure is not None:
            raise self._failure

    def _run(self):
        actors = [self._probe(n) for n in range(PROBES)] + [self._rival(n) for n in range(RIVALS)]
        actors += [self._buyer(hold) for hold in self.buyers] + [self._look()]
        try:
            Swarm(actors, timeout=600).run()
        except BaseException as failure:  # whatever it is, the test is told
            self._failure = failure

    def _probe(self, number):
        user = Client(self.node, self.org, f"probe-{number}")
        for lap in range(10 ** 9):
            if self.over.is_set():
                return
            name = f"S-{number + 1 + PROBES * (lap % (SPARE // PROBES))}"
            began = time.monotonic()
            answer = yield hold_shot(user, self.event, name, cart=f"cart-{lap}")
            self.waits.append((began, time.monotonic() - began))
            if answer is None or answer.status != 201:
                self.wrong.append((name, answer))
                return
            yield shot(user, "DELETE", f"/api/holds/{answer.json['hold_id']}")
            yield pause(0.02)

    def _rival(self, number):
        """What is taken stays taken until it is released; what he gets then is his."""
        for turn in range(10 ** 9):
            if self.over.is_set():
                return
            user, name = Client(self.node, self.org, f"rival-{number}-{turn}"), f"A-{self.chance.randint(1, SEATS)}"
            answer = yield hold_shot(user, self.event, name)
            if answer is not None and answer.status == 201:
                self.new.append(answer.json)
            elif answer is None or answer.code not in ("seat_taken", "seat_sold", "seat_contended"):
                self.wrong.append((name, answer))
                return
            yield pause(0.05)

    def _buyer(self, hold):
        user = Client(self.node, self.org, hold["user_id"])
        while not self.selling.is_set():
            yield pause(0.01)
        if self.over.is_set():
            return
        yield pause(self.chance.uniform(0, self.sale_s))
        self.sales[hold["hold_id"]] = yield shot(user, "POST", f"/api/holds/{hold['hold_id']}/confirm", {})

    def _look(self):
        user = Client(self.node, self.org, "somebody")
        while not self.over.is_set():
            began = time.monotonic()
            answer = yield shot(user, "GET", f"/api/holds?event_id={self.event}")
            self.looks.append(time.monotonic() - began)
            if answer is None or answer.status != 200:
                self.wrong.append(("a look", answer))
            yield pause(0.05)

    def p99(self, since, until):
        waits = sorted(took for at, took in self.waits if since <= at < until)
        return waits[int(0.99 * (len(waits) - 1))], len(waits)


def make_house(admin):
    event = admin.make_event(0)
    for first in range(1, SEATS + 1, 4000):
        admin.make_event([seat(f"A-{n}", number=n) for n in range(first, min(first + 4000, SEATS + 1))], event=event)
    return event


def fill_house(node, org, event):
    """Each seat is held, one to four a hold, by somebody of its own; the holds as they were granted."""
    starts, chance = [], random.Random(7)
    first = 1
    while first <= SEATS:
        count = min(chance.randint(1, 4), SEATS + 1 - first)
        starts.append((first, count))
        first += count

    def holder(share):
        holds = []
        for first, count in share:
            user = Client(node, org, f"buyer-{first}")
            answer = yield hold_shot(user, event, *[f"A-{n}" for n in range(first, first + count)])
            assert answer is not None and answer.status == 201, answer
            holds.append(answer.json)
        return holds

    shares = drive([holder(starts[n::HOLDERS]) for n in range(HOLDERS)], timeout=300)
    return [hold for share in shares for hold in share]


def test_all_but_what_is_sold_meanwhile_is_released_while_new_holds_go_on(node, admin, org, db, prove):
    event = make_house(admin)
    admin.make_event([seat(f"S-{n}", row="S", number=n) for n in range(1, SPARE + 1)], event=event)
    holds = fill_house(node, org, event)
    with Crowd(node, org, event, holds, seed=11) as crowd:
        time.sleep(CALM_S)  # what new holds wait without it is measured
        calm = crowd.p99(0, time.monotonic())
        crowd.sale_s = SEATS / 6_000  # about as long as it takes
        began = time.monotonic()
        crowd.selling.set()
        body = released(admin, event_id=event, all=True, notes="the hall is closed")
        ended = time.monotonic()
        wait_until(lambda: len(crowd.sales) == SOLD, timeout=30)
        wait_until(lambda: len(crowd.new) >= 10, timeout=30, what="freed seats are held again")
    busy = crowd.p99(began, ended)
    print(f"{len(holds)} holds, {SEATS} seats: {body['seats_released']} released in {ended - began:.2f} s, "
          f"{sum(answer.status == 200 for answer in crowd.sales.values())} of {SOLD} holds sold meanwhile, "
          f"{len(crowd.new)} new ones on freed seats; p99 of new holds {calm[0] * 1e3:.1f} ms ({calm[1]}) before, "
          f"{busy[0] * 1e3:.1f} ms ({busy[1]}) during it: ratio {busy[0] / calm[0]:.2f}")
    assert not crowd.wrong, crowd.wrong[:5]
    assert max(crowd.looks) < 2, "other work of the desk waited"
    check_end(db, org, event, holds, crowd, body)
    prove(event)
    if LONG:
        assert busy[0] <= 2 * calm[0]


def check_end(db, org, event, holds, crowd, body):
    """Who was told that it is sold has it, and all else was released, once; what was held since then stands."""
    assert {answer.code for answer in crowd.sales.values() if answer.status != 200} <= {"hold_not_active"}
    sold = {each["seat_id"]: hold for hold in crowd.buyers if crowd.sales[hold["hold_id"]].status == 200
            for each in hold["seats"]}
    new = {each["seat_id"]: hold for hold in crowd.new for each in hold["seats"]}
    rows = {row.seat_id: row for row in query(
        db, "SELECT seat_id, status::text, user_id, hold_id::text FROM seats WHERE org_id = %s AND event_id = %s "
        "AND seat_id LIKE 'A-%%'", org, event)}
    for name, row in rows.items():
        owner = sold.get(name) or new.get(name)
        wanted = "sold" if name in sold else "held" if name in new else "available"
        assert (row.status, row.user_id, row.hold_id) == \
            (wanted, owner and owner["user_id"], owner and owner["hold_id"]), row
    assert body["seats_released"] == SEATS - len(sold)
    assert set(skip["reason"] for skip in body["skipped"]) <= {"hold_not_active"}
    check_released_once(db, org, event, set(rows) - set(sold))


def check_released_once(db, org, event, names):
    """By the administrator, and nobody else's."""
    entries = query(db, "SELECT seat_id, reason FROM audit_log WHERE org_id = %s AND event_id = %s "
                    "AND action = 'seat_released' AND seat_id LIKE 'A-%%'", org, event)
    assert {entry.reason for entry in entries} == {"admin_override"}
    assert sorted(entry.seat_id for entry in entries) == sorted(names)


# --- ended in the middle ---------------------------------------------------------------------------------------


def released_so_far(db, org, event):
    [row] = query(db, "SELECT count(*) AS n FROM audit_log WHERE org_id = %s AND event_id = %s "
                  "AND action = 'seat_released'", org, event)
    return row.n


def full_house(admin, db):
    event = make_house(admin)
    hold_all(db, admin.org, event)
    return event


class Asked:
    """A release of a whole event that is under way; `answer` is None where there came none."""

    def __init__(self, admin, event):
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        self._future = self._pool.submit(release, admin, event_id=event, all=True)

    def answer(self):
        try:
            return self._future.result(timeout=2 * TIME_S)
        except (OSError, http.client.HTTPException):
            return None
        finally:
            self._pool.shutdown()


def await_middle(db, admin, event):
    wait_until(lambda: released_so_far(db, admin.org, event) > SEATS // 10, every=0.002, timeout=30)


@pytest.fixture
def unhurried(db):
    """Each transaction takes so long that the middle of a release can't be missed."""
    with trigger(db, "unhurried", "batches", "BEFORE INSERT", "PERFORM pg_sleep(0.03); RETURN NEW;"):
        yield


@pytest.mark.usefixtures("unhurried")
def test_what_a_killed_node_left_is_released_by_another(start_node, admin, db, org, check_verify):
    first, second = start_node(), start_node()
    event = full_house(admin.at(first), db)
    asked = Asked(admin.at(first), event)
    await_middle(db, admin, event)
    first.kill()
    assert asked.answer() is None
    body = released(admin.at(second), event_id=event, all=True)
    by_first = SEATS - body["seats_released"]
    assert 0 < by_first < SEATS, f"it was not the middle: {by_first}"
    names = {f"A-{n}" for n in range(1, SEATS + 1)}
    check_released_once(db, org, event, names)
    assert {status for name, status in seat_statuses(db, org, event).items() if name in names} == {"available"}
    check_verify(second, "--event", event)
    print(f"{by_first} seats by the node that was killed, {body['seats_released']} by the other")


@pytest.mark.usefixtures("unhurried")
def test_a_node_that_is_stopped_says_what_is_left(start_node, admin, db, org, check_verify):
    first, second = start_node(drain_delay="0ms"), start_node()
    event = full_house(admin.at(first), db)
    asked = Asked(admin.at(first), event)
    await_middle(db, admin, event)
    first.stop()
    answer = asked.answer().expect(503, "draining")
    done = released_so_far(db, org, event)
    assert int(answer.headers["Retry-After"]) >= 1
    assert f"{done} seats of {done} holds were released, {SEATS - done} of {SEATS} are left" in answer.json["detail"]
    assert released(admin.at(second), event_id=event, all=True)["seats_released"] == SEATS - done
    check_released_once(db, org, event, {f"A-{n}" for n in range(1, SEATS + 1)})
    check_verify(second, "--event", event)


def test_a_database_that_goes_and_comes_back_is_waited_for(workplace, log_folder):
    """Row 7 of seed 002's table: what was not known to be released is found out, and nothing is released twice."""
    with House(workplace, log_folder, nodes=1) as house, house.database() as db:
        admin = house.admin()
        event = full_house(admin, db)
        asked = Asked(admin, event)
        await_middle(db, admin, event)
        house.postgres.crash()
        house.postgres.start()
        body = asked.answer().expect(200).json
        with house.database() as again:
            check_released_once(again, admin.org, event, {f"A-{n}" for n in range(1, SEATS + 1)})
        assert (body["seats_released"], body["skipped"]) == (SEATS, [])
        house.prove(admin.org, event)
