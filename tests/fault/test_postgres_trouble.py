"""While Postgres is away no hold is granted, and nothing that was granted is lost."""

import contextlib
import shutil
import time
import uuid

import psycopg2
import pytest

from support import servers
from support.asking import ask, end_all_sessions
from support.bystander import CLOSE_GATE, await_waiting, execute, holding, trigger
from support.buyers import Buyers
from support.client import Client
from support.node import Node
from support.waiting import at_once, wait_until


@pytest.fixture
def behind_proxy(start_node, proxied, database_url, admin):
    """(a user at a node whose Postgres is reached through a proxy, that proxy)"""
    proxy, url = proxied(database_url)
    node = start_node(database_url=url, request_timeout="3s")
    return Client(node, admin.org, "user-behind"), proxy


def test_no_hold_is_granted_while_postgres_is_away(behind_proxy, event, check_audit):
    user, proxy = behind_proxy
    user.held(event, "A-1")
    proxy.refuse()
    answer = user.hold_one(event, "A-2")
    assert answer.status == 503, answer
    assert answer.code in ("store_unavailable", "outcome_unknown")
    assert int(answer.headers["Retry-After"]) >= 1
    proxy.allow()
    wait_until(lambda: user.hold_one(event, "A-3", cart="cart-3").status in (200, 201), timeout=30)
    check_audit(event)


def test_connections_that_break_under_load_lose_and_double_nothing(behind_proxy, admin, check_audit, check_verify):
    """Whoever heard 201 has the seat; whoever heard anything else may try again and then knows."""
    user, proxy = behind_proxy
    event = admin.make_event(200)
    users = [user.as_user() for _ in range(20)]

    def buy_ten(index):
        if index == 20:  # the one who pulls the plug, again and again
            for _ in range(10):
                proxy.cut()
                wait_until(lambda: proxy.connections > 0, timeout=30)
            return []
        return [(f"A-{10 * index + n + 1}", users[index].hold_one(event, f"A-{10 * index + n + 1}"))
                for n in range(10)]

    answers = [pair + (index,) for index, pairs in enumerate(at_once(21, buy_ten)) for pair in pairs]
    for seat, answer, index in answers:
        assert answer.status in (200, 201) or answer.code in ("store_unavailable", "outcome_unknown"), answer
        if answer.status in (200, 201):
            # The last cut may have been a moment ago.
            wait_until(lambda: (a := users[index].hold_one(event, seat)).status != 503 and a, timeout=30).expect(200)
    wait_until(lambda: user.hold_one(event, "A-1").status in (200, 201, 409), timeout=30)
    check_audit(event)
    check_verify(user.node)


def test_a_frozen_postgres_is_answered_503_in_time(behind_proxy, event, check_audit):
    user, proxy = behind_proxy
    user.held(event, "A-1")
    proxy.freeze()
    answer = user.hold_one(event, "A-2")
    proxy.thaw()
    assert answer.status == 503, answer
    wait_until(lambda: user.hold_one(event, "A-2", cart="cart-2").status in (200, 201), timeout=30)
    check_audit(event)


def test_pools_come_back_by_themselves_whatever_became_of_the_server(start_node, own_postgres, org):
    node = start_node(database_url=own_postgres.url(), redis_url="", request_timeout="3s")
    event = Client(node, org, "admin", "admin").make_event(4000)

    def end_sessions():
        assert end_all_sessions(own_postgres.url()) > 0

    def restart_fast():
        own_postgres.stop()
        own_postgres.start()

    def restart_without_a_goodbye():
        own_postgres.crash()
        own_postgres.start()

    with Buyers(node, org, event, 4000) as buyers:
        for accident in (end_sessions, restart_fast, restart_without_a_goodbye, end_sessions):
            buyers.goes_on(within=10, holds=50)
            accident()
            buyers.goes_on(within=5)
        assert max(buyers.waits) < 5  # request_timeout, and what a busy machine takes
    buyers.prove(own_postgres.url(), node)
    # "overloaded": its time passed in the queue, while the workers asked what had become of a commit.
    assert set(buyers.refusals) <= {"store_unavailable", "outcome_unknown", "overloaded"}


def test_a_server_that_may_lose_commits_is_refused_and_that_is_told_once(workplace, log_folder):
    settings = {"fsync": "off", "shared_buffers": "64MB", "log_connections": "on"}
    server = servers.Postgres(workplace.path / "postgres-unsafe", settings)
    server.start()
    node = Node(log_folder, server.url(), node_id=f"node-{uuid.uuid4().hex[:8]}")
    try:
        node.spawn()
        wait_until(lambda: server.log.read_text().count("application_name=holdfast start") >= 4, timeout=30,
                   what="the node tries again and again")
        refused = [line for line in node.log_lines() if line["event"] == "postgres_unusable"]
        assert len(refused) == 1, refused
        assert "fsync is 'off'" in refused[0]["error"]
    finally:
        node.kill()
        server.stop()
        shutil.rmtree(server.folder)


# --- the desk --------------------------------------------------------------------------------------------------------


def test_reads_of_a_postgres_that_hangs_are_answered_as_soon_as_that_is_known(start_node, own_postgres, org):
    """Only what a thread of the desk has in its hands hears so late; what Redis has is told, marked as old."""
    node = start_node(database_url=own_postgres.url(), request_timeout="8s", desks=2)
    admin = Client(node, org, "admin-1", "admin")
    event = admin.make_event(60)
    buyer, reader = admin.as_user(), admin.as_user()
    for n in range(1, 41):
        buyer.held(event, f"A-{n}", cart=f"cart-{n}")
    time.sleep(1.2)  # by now Redis' word alone doesn't do

    def read(number):
        start = time.monotonic()
        # About his own seats memory doesn't answer.
        answer = buyer.as_user(buyer.user).seat(event, f"A-{number + 1}")
        return number, answer, time.monotonic() - start

    own_postgres.pause()
    try:
        first = at_once(30, read)
        assert sum(took > 5 for _, _, took in first) <= 2, sorted(took for *_, took in first)
        later = at_once(30, read)
        assert max(took for *_, took in later) < 3, sorted(took for *_, took in later)
        for number, answer, took in first + later:
            assert took < 10, (number, answer, took)
            if took < 5:
                assert answer.status == 200 and answer.headers["X-Holdfast-Stale"] == "true", answer
        start = time.monotonic()
        reader.seat(event, "A-50").expect(503, "store_unavailable")  # about a free seat Redis says nothing
        admin.get(f"/api/admin/verify/{event}").expect(503, "store_unavailable")
        assert time.monotonic() - start < 3
    finally:
        own_postgres.resume()
    wait_until(lambda: reader.seat(event, "A-50").status == 200, timeout=10)


@contextlib.contextmanager
def late_commits(db):
    """Who changes a seat stands within COMMIT before a row that holding(url, CLOSE_GATE) locks, however long."""
    execute(db, "CREATE TABLE gate (id int PRIMARY KEY); INSERT INTO gate VALUES (1)")
    body = "PERFORM set_config('lock_timeout', '0', true); PERFORM FROM gate FOR SHARE; RETURN NULL;"
    try:
        with trigger(db, "at_late_gate", "audit_log", "AFTER INSERT", body, deferred=True):
            yield
    finally:
        execute(db, "DROP TABLE gate")


def test_a_change_of_the_desk_that_commits_after_its_answer_is_learned(
        start_node, proxied, own_postgres, org, check_audit, check_verify):
    """Memory was told "blocked" and is alone, so it goes on saying so: until it doubts, and hears once more."""
    proxy, url = proxied(own_postgres.url())
    node = start_node(database_url=url, redis_url="", request_timeout="1s")
    admin = Client(node, org, "admin-1", "admin")
    event, buyer, bystanding = admin.make_event(3), admin.as_user(), admin.as_user()
    seats = {"event_id": event, "seat_ids": ["A-1"], "reason": "x"}
    admin.post("/api/admin/seats/block", seats).expect(200)

    def tier_that_says_blocked():
        time.sleep(1.2)  # longer than hot_lease
        bystanding.hold_one(event, "A-2")  # what memory knows of the event is fresh, and no word of A-1
        answer = buyer.hold_one(event, "A-1").expect(409, "seat_blocked")
        return answer.headers["X-Holdfast-Tier"]

    wait_until(lambda: tier_that_says_blocked() == "hot" == tier_that_says_blocked(), timeout=20)
    settled = node.metrics()["holdfast_outcomes_settled_total"]
    with contextlib.closing(psycopg2.connect(own_postgres.url())) as db:
        db.autocommit = True
        with late_commits(db):
            with holding(own_postgres.url(), CLOSE_GATE) as bystander:
                proxy.at(b"COMMIT", "lose the answer")
                admin.post("/api/admin/seats/unblock", seats).expect(503, "outcome_unknown")
                await_waiting(db)  # the COMMIT, and perhaps the node that asks what became of it
                time.sleep(1)
                assert node.metrics()["holdfast_outcomes_settled_total"] == settled
                bystander.release()
            wait_until(lambda: node.metrics()["holdfast_outcomes_settled_total"] == settled + 1, timeout=10)
        bystanding.hold_one(event, "A-2")
        buyer.hold_one(event, "A-1").expect(201)
        check_audit(event, connection=db)
    check_verify(node)
