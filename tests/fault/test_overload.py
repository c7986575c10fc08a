"""More than can be done, and a store that can't be asked: who can't be served in time hears so at once, nobody waits
longer than request_timeout, what is served goes on as before, and when it is over nothing is left of it."""

import collections
import contextlib
import shutil
import threading
import time
import uuid

import psycopg2
import pytest

from checker import audit_checker
from support import servers
from support.bystander import holding, one_value, trigger
from support.client import Client
from support.node import Node, verify
from support.swarm import allow_descriptors, ask, drive, hold_shot, pause, shot, volley
from support.waiting import at_once, wait_until

pytestmark = pytest.mark.alone

REQUEST_TIMEOUT_S = 1.5
REQUEST_TIMEOUT = f"{1000 * REQUEST_TIMEOUT_S:.0f}ms"
SLACK_S = 1.2  # of a busy machine, for the way there and back; less than to wait as long again
SLOW_COMMIT = "PERFORM pg_sleep(0.02); RETURN NEW;"
BATCH = 4


@pytest.fixture(scope="module")
def fragile_postgres(workplace):
    """This module's own: each test leaves it as it was."""
    server = servers.Postgres(workplace.path / f"postgres-{uuid.uuid4().hex[:8]}", {"shared_buffers": "64MB"})
    server.start()
    yield server
    server.stop()
    shutil.rmtree(server.folder)


def mend(postgres):
    if postgres.process.poll() is None:
        postgres.resume()
    else:
        postgres.start()


@pytest.fixture
def own_postgres(fragile_postgres):
    yield fragile_postgres
    mend(fragile_postgres)


@pytest.fixture
def narrow(start_node, org):
    """The administrator at a node that can do BATCH ops each 20 ms, while commits are slow."""
    node = start_node(workers=1, batch_max=BATCH, request_timeout=REQUEST_TIMEOUT)
    return Client(node, org, "admin-1", "admin")


def buyers(admin, event, count, seconds, seats_each):
    """Each holds one seat of its own after the other, until it has it; what they saw: [(sent at, how long, status, code, Retry-After)]."""
    saw, start = [], time.monotonic()

    def buyer(number):
        user, n = admin.as_user(f"buyer-{number}"), 0
        while n < seats_each and time.monotonic() - start < seconds:
            sent = time.monotonic()
            answer = yield hold_shot(user, event, f"A-{number * seats_each + n + 1}", cart=f"cart-{n}")
            took = time.monotonic() - sent
            saw.append((sent - start, took, answer.status, answer.code, answer.headers.get("Retry-After")))
            if answer.status == 201:
                n += 1
            else:
                yield pause(0.2)  # not the second that it was told: there shall be many refusals

    drive([buyer(number) for number in range(count)], timeout=seconds + 30)
    return saw


def granted_per_second(saw, after, before):
    return sum(status == 201 and after <= sent + took < before for sent, took, status, _, _ in saw) / (before - after)


def test_what_cannot_be_served_in_time_is_refused_at_once_and_the_rest_is_served(narrow, db, prove):
    with trigger(db, "slow_commit", "batches", "BEFORE INSERT", SLOW_COMMIT):
        quiet = narrow.make_event(200)
        alone = buyers(narrow, quiet, 2 * BATCH, 2.5, 25)
        crowded = narrow.make_event(3000)
        saw = buyers(narrow, crowded, 600, 5, 5)
    assert {(status, code) for _, _, status, code, _ in saw} <= {(201, None), (503, "overloaded")}
    slowest = max(took for _, took, *_ in saw)
    assert slowest < REQUEST_TIMEOUT_S + SLACK_S, f"somebody waited {slowest:.2f} s"
    # Once it is known how long an op takes: nobody waits first and is refused then.
    refused = sorted(took for sent, took, status, *_ in saw if status == 503 and sent > 2 * REQUEST_TIMEOUT_S)
    assert len(refused) > 300, "the load is no overload"
    assert refused[len(refused) // 2] < 0.2, f"a refusal took {refused[len(refused) // 2]:.2f} s"
    assert all(int(again) >= 1 for _, _, status, _, again in saw if status == 503)
    before, during = granted_per_second(alone, 0.5, 2.5), granted_per_second(saw, 2, 5)
    assert during >= 0.8 * before, f"{during:.0f} holds a second under overload, {before:.0f} without"
    assert narrow.node.metrics()["holdfast_overloaded_total"] > 0
    prove(crowded)


def test_a_change_that_cannot_be_made_in_time_is_refused_as_well(narrow, db, prove):
    """As many changes as holds ask for each place in the queue."""
    event, owned = narrow.make_event(1000), narrow.make_event(100)
    owners = [narrow.as_user(f"owner-{n}") for n in range(100)]
    holds = [owner.held(owned, f"A-{n}")["hold_id"] for n, owner in enumerate(owners, 1)]
    heard, over = [], time.monotonic() + 4

    def changer(owner, hold):
        while time.monotonic() < over:
            answer = yield shot(owner, "POST", f"/api/holds/{hold}/extend", {"seconds": 60})
            heard.append(answer.code)
            yield pause(0.2)

    with trigger(db, "slow_commit", "batches", "BEFORE INSERT", SLOW_COMMIT):
        changing = threading.Thread(target=drive, args=([changer(*pair) for pair in zip(owners, holds)], 40))
        changing.start()
        buyers(narrow, event, 450, 3, 2)
        changing.join()
    assert set(heard) == {None, "overloaded"}, collections.Counter(heard)
    prove(event)
    prove(owned)


def test_a_stall_that_is_over_keeps_nobody_out(own_postgres, log_folder, org):
    node = Node(log_folder, own_postgres.url(), workers=1, batch_max=BATCH, request_timeout="5s").start()
    try:
        admin = Client(node, org, "admin-1", "admin")
        event = admin.make_event(400)
        shots = [hold_shot(admin.as_user(), event, f"A-{n}") for n in range(1, 401)]
        own_postgres.pause()
        resume = threading.Timer(0.7, own_postgres.resume)
        resume.start()
        waited = volley(shots[:200])
        resume.join()
        wait_until(lambda: admin.hold_one(event, "A-201").status in (200, 201), what="it is back")
        after = volley(shots[201:])
        assert {answer.status for answer in waited} <= {201, 503}
        assert [answer.status for answer in after] == [201] * len(after), "the queue is empty, and somebody is refused"
    finally:
        node.stop()


def test_all_connections_are_back_soon_though_the_queue_never_runs_empty(own_postgres, proxied, log_folder, org):
    proxy, url = proxied(own_postgres.url())
    node = Node(log_folder, url, workers=4, batch_max=BATCH, request_timeout=REQUEST_TIMEOUT).start()
    connections = lambda: node.metrics()["holdfast_pg_connections"]
    came_back = []

    def break_off():
        before = connections()
        proxy.refuse()
        wait_until(lambda: connections() == 0, timeout=2, what="all are lost")
        wait_until(lambda: admin.hold_one(event, "A-3000").code == "store_unavailable", timeout=2, what="buyers hear so")
        proxy.allow()
        start = time.monotonic()
        wait_until(lambda: connections() >= before, timeout=4, what="all are back")
        came_back.append(time.monotonic() - start)

    try:
        admin = Client(node, org, "admin-1", "admin")
        event = admin.make_event(3000)
        with contextlib.closing(psycopg2.connect(own_postgres.url())) as db:
            db.autocommit = True
            # Four workers do 400 ops a second then, and 800 wait: more than can be served in time.
            with trigger(db, "slow_commit", "batches", "BEFORE INSERT", SLOW_COMMIT.replace("0.02", "0.04")):
                breaker = threading.Timer(1, break_off)
                breaker.start()
                saw = buyers(admin, event, 800, 4, 3)
                breaker.join()
        assert came_back and came_back[0] < 3, came_back
        codes = {(status, code) for _, _, status, code, _ in saw}
        assert codes >= {(201, None), (503, "overloaded")}, "it was no outage under load"
    finally:
        node.stop()


# --- whatever Postgres does ----------------------------------------------------------------------------------------


@pytest.fixture
def broken(own_postgres, proxied, log_folder, org):
    """A node whose way to Postgres may be broken in every way."""
    proxy, url = proxied(own_postgres.url())
    node = Node(log_folder, url, request_timeout=REQUEST_TIMEOUT).start()
    try:
        yield Client(node, org, "admin-1", "admin"), own_postgres, proxy
    finally:
        mend(own_postgres)
        proxy.thaw()
        proxy.appear()
        node.stop()


ROUNDS = 30  # of each kind of request, 0.1 s apart
BREAKS = {
    "killed": (lambda postgres, proxy: postgres.crash(), lambda postgres, proxy: postgres.start()),
    "hung": (lambda postgres, proxy: postgres.pause(), lambda postgres, proxy: postgres.resume()),
    "a black hole": (lambda postgres, proxy: proxy.vanish(), lambda postgres, proxy: proxy.appear()),
    "frozen on its way": (lambda postgres, proxy: proxy.freeze(), lambda postgres, proxy: proxy.thaw()),
}


def every_kind_of_request(admin, event, mine, n):
    """Shots: holds of distinct seats, of one seat (they wait for each other), with a key, of seat and area; changes; reads."""
    user = lambda: admin.as_user(f"user-{n}-{len(shots)}")
    shots = []
    for seat in range(3):
        shots.append(hold_shot(user(), event, f"A-{4 + 3 * n + seat}"))
    for _ in range(3):
        shots.append(hold_shot(user(), event, "A-1"))
    shots.append(hold_shot(user(), event, f"A-{4 + 3 * n}", headers={"Idempotency-Key": f"key-{n}"}))
    shots.append(hold_shot(user(), event, "A-2", areas=[{"area_id": "floor", "quantity": 1}]))
    path = f"/api/holds/{mine['hold_id']}"
    owner = admin.as_user("owner")
    shots.append(shot(owner, "POST", f"{path}/extend"))
    shots.append(shot(owner, "PATCH", path, {"add_seat_ids": [f"A-{4 + 3 * n + 1}"]}))
    shots.append(shot(owner, "GET", path))
    shots.append(shot(owner, "GET", f"/api/events/{event}/occupancy"))
    shots.append(shot(admin, "PUT", f"/api/events/{event}", {"name": f"name {n}", "kind": "event", "status": "on_sale"}))
    return shots


@pytest.mark.parametrize("how", BREAKS)
def test_nobody_waits_longer_than_request_timeout_whatever_postgres_does(broken, how):
    admin, postgres, proxy = broken
    allow_descriptors()
    event = admin.make_event(150, areas=[{"area_id": "floor", "name": "floor", "capacity": 100}])
    mine = admin.as_user("owner").held(event, "A-3")
    took = []

    def one(a_shot, after):
        yield pause(after)
        sent = time.monotonic()
        answer = yield a_shot
        took.append((time.monotonic() - sent, a_shot.data.split(b" HTTP")[0], answer))

    break_it, mend_it = BREAKS[how]
    shots = [(a_shot, 0.1 * n) for n in range(ROUNDS) for a_shot in every_kind_of_request(admin, event, mine, n)]
    breaker = threading.Timer(0.3, break_it, (postgres, proxy))
    breaker.start()
    drive([one(*each) for each in shots], timeout=30)
    breaker.join()
    slowest = max(took, key=lambda each: each[0])
    assert slowest[0] < REQUEST_TIMEOUT_S + SLACK_S, slowest
    assert all(answer is not None for _, _, answer in took)
    codes = {answer.code for _, _, answer in took if answer.status == 503}
    assert codes <= {"store_unavailable", "outcome_unknown"}, codes
    assert "store_unavailable" in codes
    # The last were sent long after: they did not wait at all.
    late = sorted(seconds for seconds, what, _ in took[-len(took) // 4:])
    assert late[len(late) // 2] < 0.3, f"half of the last ones waited {late[len(late) // 2]:.2f} s and more"
    mend_it(postgres, proxy)
    wait_until(lambda: admin.get("/ready").json["postgres"] == "up", timeout=10, what="the node is connected again")
    sent = time.monotonic()
    admin.as_user().hold_one(event, "A-150").expect(201)
    assert time.monotonic() - sent < 1, "the first one had to wait"


@pytest.mark.parametrize("how", ["killed", "hung", "frozen on its way"])
def test_an_idle_node_knows_within_two_seconds_that_the_store_is_away_and_that_it_is_back(broken, how):
    admin, postgres, proxy = broken
    break_it, mend_it = BREAKS[how]

    def postgres_is(word):
        return lambda: admin.get("/ready").json["postgres"] == word

    wait_until(postgres_is("up"), what="it is up")
    break_it(postgres, proxy)
    wait_until(postgres_is("down"), timeout=2 + SLACK_S, what="it is known to be down")
    mend_it(postgres, proxy)
    wait_until(postgres_is("up"), timeout=3 + SLACK_S, what="it is known to be up")


def test_memory_refuses_while_the_store_is_away(broken):
    admin, postgres, _ = broken
    event = admin.make_event(2)
    admin.as_user("owner").held(event, "A-1")
    wait_until(lambda: admin.hold_one(event, "A-1").headers["X-Holdfast-Tier"] == "hot", what="memory knows")
    postgres.crash()
    wait_until(lambda: admin.hold_one(event, "A-2").code == "store_unavailable", what="the store is away")
    postgres.start()


def test_a_node_drains_in_time_while_postgres_hangs_and_tells_nothing_that_is_not_so(own_postgres, log_folder, org):
    node = Node(log_folder, own_postgres.url(), request_timeout="2s", drain_delay="200ms", drain_timeout="6s").start()
    admin = Client(node, org, "admin-1", "admin")
    event = admin.make_event(21)
    admin.as_user("first").held(event, "A-21")  # workers have connections, and know the event
    begun = node.metrics()["holdfast_batches_total"]
    own_postgres.pause()
    wires = {f"A-{n}": ask(hold_shot(admin.as_user(f"user-{n}"), event, f"A-{n}")) for n in range(1, 21)}
    wait_until(lambda: node.metrics()["holdfast_batches_total"] > begun, timeout=20, what="a transaction has been begun")
    stopping = threading.Thread(target=node.stop)
    start = time.monotonic()
    stopping.start()
    heard = {seat: wire.answer() for seat, wire in wires.items()}
    stopping.join()
    assert time.monotonic() - start < 6 + SLACK_S
    assert {answer.code for answer in heard.values()} <= {"store_unavailable", "outcome_unknown"}, heard
    own_postgres.resume()
    with contextlib.closing(psycopg2.connect(own_postgres.url())) as db:
        db.autocommit = True
        wait_until(lambda: one_value(db, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
                                         " AND pid <> pg_backend_pid()") == 0, timeout=20, what="its sessions have ended")
        for seat, answer in heard.items():
            if answer.code == "store_unavailable":
                assert one_value(db, "SELECT status FROM seats WHERE org_id = %s AND event_id = %s AND seat_id = %s",
                                 (org, event, seat)) == "available", f"{seat} was said to be unchanged"


# --- what dead nodes leave -------------------------------------------------------------------------------------------


def test_two_reapers_share_what_a_dead_node_left(own_postgres, log_folder, org):
    """Each seat of 1,250 holds is freed once; the nodes start when all are over, so that no wheel knows them.

    The last ones are locked until the others are freed: then a node that came too late for any has those to itself.
    """
    holds, seats_each, actors, last = 1250, 4, 20, 250
    count = holds * seats_each  # five sweeps' worth
    nodes = [Node(log_folder, own_postgres.url(), reaper_interval_ms=100) for _ in range(3)]
    first, *heirs = nodes
    admin = Client(first.start(), org, "admin-1", "admin")
    event = admin.make_event(count, policy={"hold_ttl": 12, "max_hold": 60})

    def buy(number):
        user = admin.as_user(f"buyer-{number}")
        for hold in range(number, holds, actors):
            seats = [f"A-{hold * seats_each + seat + 1}" for seat in range(seats_each)]
            answer = yield hold_shot(user, event, *seats, cart=f"cart-{hold}")
            assert answer.status == 201, answer

    try:
        drive([buy(number) for number in range(actors)])
        first.kill()
        with contextlib.closing(psycopg2.connect(own_postgres.url())) as db:
            db.autocommit = True
            left = "SELECT count(*) FROM seat_holds WHERE org_id = %s AND event_id = %s AND status = 'active'"
            over = left + " AND held_until < now() - interval '500 ms'"
            assert one_value(db, left, (org, event)) == count, "the dead node has ended some: the load took too long"
            wait_until(lambda: one_value(db, over, (org, event)) == count, timeout=30, every=0.2, what="all are over")
            lock_last = left.replace("count(*)", "1") + " ORDER BY held_until DESC, hold_id LIMIT %s FOR UPDATE"
            with holding(own_postgres.url(), lock_last, (org, event, last * seats_each)) as bystander:
                at_once(2, lambda index: heirs[index].start())
                wait_until(lambda: one_value(db, left, (org, event)) == last * seats_each, timeout=30, what="all others are freed")
                late = any(reaped(node) == 0 for node in heirs)
                quick = [node for node in heirs if late and reaped(node) > 0]
                for node in quick:
                    node.pause()
                bystander.release()
            wait_until(lambda: one_value(db, left, (org, event)) == 0, timeout=30, what="all are freed")
            for node in quick:
                node.resume()
            released = one_value(db, "SELECT count(*) FROM audit_log WHERE org_id = %s AND event_id = %s"
                                     " AND action = 'seat_released'", (org, event))
            assert released == count
            assert not audit_checker.check_event(db, org, event)
        wait_until(lambda: sum(reaped(node) for node in heirs) == holds, what="the metrics say so")
        wait_until(lambda: sum(node.metrics()["holdfast_seats_reaped_total"] for node in heirs) == count, what="of seats too")
        for node in heirs:
            metrics = node.metrics()
            assert metrics["holdfast_holds_reaped_total"] == metrics["holdfast_reaper_lag_seconds_count"] > 0
            assert metrics["holdfast_reaper_sweeps_total"] > 0
        verify(heirs[0])
    finally:
        for node in heirs:
            node.stop()


def reaped(node):
    return node.metrics()["holdfast_holds_reaped_total"]
