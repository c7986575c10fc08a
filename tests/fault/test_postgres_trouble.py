"""While Postgres is away no hold is granted, and nothing that was granted is lost."""

import shutil
import uuid

import pytest

from support import servers
from support.asking import ask, end_all_sessions
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
            users[index].hold_one(event, seat).expect(200)
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
        assert max(buyers.waits) < 4
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
