"""Redis is optional at every moment: absent, hung, restarted or wiped, the server stays correct."""

import pytest

from support.client import Client
from support.waiting import at_once, wait_until


@pytest.fixture
def on_own_redis(start_node, own_redis, admin, event):
    """(a user at a node that has a Redis of its own, that Redis)"""
    node = start_node(redis_url=own_redis.url())
    return Client(node, admin.org, "user-own"), own_redis


def test_holds_go_on_without_any_redis(start_node, client, event, check_audit):
    node = start_node(redis_url="")
    lone = client.at(node)
    hold = lone.held(event, "A-1")
    lone.extend(hold["hold_id"]).expect(200)
    lone.confirm(hold["hold_id"]).expect(200)
    check_audit(event)


def test_holds_go_on_when_redis_dies_and_when_it_comes_back(on_own_redis, admin, check_audit):
    user, redis = on_own_redis
    event = admin.make_event(400)
    free = (f"A-{n}" for n in range(2, 401))
    user.held(event, "A-1")
    redis.kill()
    for _ in range(10):  # more than it takes to open the breaker
        user.held(event, next(free))
    user.as_user().hold_one(event, "A-1").expect(409, "seat_taken")
    redis.start()

    def used_again():
        user.held(event, next(free))
        return user.node.metrics()['holdfast_pool_up{pool="redis"}'] == 1

    wait_until(used_again, timeout=40, every=0.2)
    check_audit(event)


def test_holds_go_on_while_redis_hangs(on_own_redis, event, check_audit):
    user, redis = on_own_redis
    user.held(event, "A-1")
    redis.pause()
    users = [user.as_user() for _ in range(9)]
    statuses = at_once(9, lambda index: users[index].hold_one(event, f"A-{index + 2}").status)
    redis.resume()
    assert statuses == [201] * 9
    check_audit(event)


def test_a_wiped_redis_sells_nothing_twice(client, other, event, redis, check_audit):
    client.held(event, "A-1", "A-2")
    redis.flushdb()
    other.hold_one(event, "A-1").expect(409, "seat_taken")
    other.hold_one(event, "A-2").expect(409, "seat_taken")
    check_audit(event)


def test_the_breaker_tells_what_it_did(on_own_redis, admin):
    """Its state, its changes and what was left out: in /ready as in /metrics, and once per change in the log."""
    user, redis = on_own_redis
    event = admin.make_event(100)
    free = (f"A-{n}" for n in range(1, 101))

    def breaker():
        return user.get("/ready").expect(200).json["redis_breaker"]

    user.held(event, next(free))
    assert breaker() == {"state": "closed", "opened": 0, "half_opened": 0, "closed": 0, "fallbacks": 0}
    redis.kill()
    wait_until(lambda: user.held(event, next(free)) and breaker()["state"] == "open", timeout=10)
    # One that comes when a probe is due is none.
    wait_until(lambda: user.held(event, next(free)) and breaker()["fallbacks"] >= 5, timeout=10, every=0.2)
    assert breaker()["opened"] >= 1
    redis.start()
    wait_until(lambda: breaker()["state"] == "closed", timeout=40, every=0.2)
    seen, metrics = breaker(), user.node.metrics()
    for name, state in (("opened", "open"), ("half_opened", "half_open"), ("closed", "closed")):
        assert seen[name] == metrics[f'holdfast_redis_breaker_transitions_total{{to="{state}"}}'] >= 1

    def told():
        return [line for line in user.node.log_lines() if line["event"] == "redis_breaker"]

    wait_until(lambda: [line["state"] for line in told()].count("closed") == seen["closed"], what="the log says so")
    assert 5 <= sum(line["fallbacks"] for line in told()) <= metrics["holdfast_redis_fallbacks_total"]
