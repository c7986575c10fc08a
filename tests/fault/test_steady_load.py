"""200 connections buy steadily while one thing after the other breaks: no answer is wrong, no 201 is lost, nobody
waits longer than request_timeout, and soon after the fault as much goes through as before, without a hand.

HOLDFAST_LONG=1 takes the lengths that the issue names, and buyers who never pause; without it the faults are shorter
and the buyers take their time, so that the figures are those of the servers and not of a busy machine.
"""

import threading

import pytest

from support.house import LONG, House, redis_is_used
from support.load import LOST, STORE_AWAY, SteadyLoad
from support.waiting import wait_until

pytestmark = pytest.mark.alone

CONNECTIONS, SEATS_EACH = 200, 5
PACE_S = 0.0 if LONG else 1.2
MEASURED_S = 10 if LONG else 2
REQUEST_TIMEOUT_S = 5 if LONG else 3
REDIS_AWAY_S = 10 if LONG else 3
POSTGRES_AWAY_S = 5 if LONG else 2
BACK_WITHIN_S, BREAKER_BACK_WITHIN_S = 5, 15


@pytest.fixture(scope="module")
def standing(workplace, log_folder):
    with House(workplace, log_folder, request_timeout=f"{REQUEST_TIMEOUT_S}s") as house:
        yield house


@pytest.fixture
def house(standing):
    return standing.whole()


def load_on(house, excuses=()):
    admin = house.admin()
    event = admin.make_event(CONNECTIONS * SEATS_EACH, policy={"hold_ttl": 600, "max_hold": 3600})
    wait_until(lambda: all(admin.at(node).hold_one(event, "A-1").status in (200, 201) for node in house.nodes),
               timeout=30, what="both nodes grant holds")
    admin.cancel(admin.hold_one(event, "A-1").expect(200).json["hold_id"]).expect(200)
    return SteadyLoad(house.nodes, admin.org, event, CONNECTIONS, SEATS_EACH, excuses, PACE_S)


def assert_survived(house, load):
    with house.database() as db:
        load.assert_as_told(db, REQUEST_TIMEOUT_S)
    house.prove(load.org, load.event)


@pytest.mark.parametrize("accident", ["killed and restarted empty", "stopped"])
def test_redis_goes_and_comes_back(house, accident):
    with load_on(house) as load:
        before = load.measure(MEASURED_S)
        house.redis.kill() if accident.startswith("killed") else house.redis.pause()
        during = load.measure(REDIS_AWAY_S)
        house.redis.start() if accident.startswith("killed") else house.redis.resume()
        load.await_rate(0.9 * before, BREAKER_BACK_WITHIN_S)
        wait_until(lambda: all(map(redis_is_used, house.nodes)), BREAKER_BACK_WITHIN_S, what="Redis is used again")
        load.await_rate(0.9 * before, BACK_WITHIN_S)
    assert during >= 0.5 * before, f"{during} holds a second without Redis, {before} with it"
    assert_survived(house, load)


def test_redis_forgets_everything(house):
    with load_on(house) as load:
        before = load.measure(MEASURED_S)
        flush_all(house.redis)
        load.await_rate(0.9 * before, BACK_WITHIN_S)
    assert_survived(house, load)


def flush_all(server):
    import redis
    with redis.Redis.from_url(server.url()) as connection:
        connection.flushall()


def test_postgres_is_away(house):
    with load_on(house, excuses=STORE_AWAY) as load:
        before = load.measure(MEASURED_S)
        house.postgres.crash()
        load.measure(POSTGRES_AWAY_S)
        house.postgres.start()
        load.await_rate(0.9 * before, BACK_WITHIN_S)
    assert load.excused, "nobody noticed"
    assert_survived(house, load)


def test_all_sessions_of_postgres_are_ended(house):
    with load_on(house, excuses=STORE_AWAY) as load:
        before = load.measure(MEASURED_S)
        assert house.end_sessions() > 0
        load.await_rate(0.9 * before, BACK_WITHIN_S)
    assert_survived(house, load)


def test_a_node_of_two_is_killed(house):
    second = house.nodes[1]
    with load_on(house, excuses={LOST, "seat_contended"}) as load:
        before = load.measure(MEASURED_S)
        second.kill()
        load.await_rate(0.5 * before, BACK_WITHIN_S)  # the clients have gone to the other one
        second.node_id += "x"  # as a container comes back; under its old name it waits until its row is old
        second.start()
        load.await_rate(0.9 * before, BACK_WITHIN_S)
    assert load.excused[LOST] > 0, "nobody noticed"
    assert_survived(house, load)


def test_postgres_hangs(house):
    """None of its processes runs, and no connection breaks: every request is answered in time all the same."""
    with load_on(house, excuses=STORE_AWAY) as load:
        before = load.measure(MEASURED_S)
        house.postgres.pause()
        load.measure(REQUEST_TIMEOUT_S + 2)
        house.postgres.resume()
        load.await_rate(0.9 * before, BACK_WITHIN_S)
    assert load.excused, "nobody noticed"
    assert_survived(house, load)


def test_a_node_drains(house):
    """What it accepted is answered, and its clients go to the other one."""
    second = house.nodes[1]
    second.restart(drain_delay="2s")
    # To find nobody who listens any more is no answer either.
    with load_on(house, excuses={"draining", LOST}) as load:
        before = load.measure(MEASURED_S)
        stopping = threading.Thread(target=second.stop)
        stopping.start()
        load.await_rate(0.5 * before, BACK_WITHIN_S)
        stopping.join()
        assert load.lost == 0, f"{load.lost} requests were accepted and not answered"
        second.start()
        load.await_rate(0.9 * before, BACK_WITHIN_S)
    assert load.excused[LOST] > 0, "nobody noticed"
    assert_survived(house, load)
