"""While Postgres is away no hold is granted, and nothing that was granted is lost."""

import pytest

from support.client import Client
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


def test_a_postgres_that_is_killed_and_recovers_has_all_that_was_granted(start_node, own_postgres, org):
    node = start_node(database_url=own_postgres.url(), redis_url="")
    admin = Client(node, org, "admin", "admin")
    event = admin.make_event(20)
    user = Client(node, org, "user-1")
    granted = [seat for seat in (f"A-{n}" for n in range(1, 11)) if user.hold_one(event, seat).status in (200, 201)]
    assert len(granted) == 10
    own_postgres.crash()
    own_postgres.start()
    for seat in granted:
        wait_until(lambda seat=seat: admin.as_user("user-2").hold_one(event, seat).code == "seat_taken", timeout=60)
    wait_until(lambda: user.hold_one(event, "A-11").status in (200, 201), timeout=60)
