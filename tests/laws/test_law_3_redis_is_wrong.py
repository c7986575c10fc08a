"""Law 3: if Redis and Postgres disagree, Redis is wrong, and gets repaired."""

import json
import time
import uuid

import pytest

from support.swarm import drive, hold_shot
from support.waiting import wait_until


NODE_SETTINGS = {"request_timeout": "30s"}  # a slow machine is no fault


def seat_key(org, event, seat):
    return f"holdfast:{{org:{org}:event:{event}}}:seat:{seat}"


def foreign_lock(seconds=600):
    """What a hold that Postgres knows nothing of would have left."""
    now = int(time.time() * 1000)
    return json.dumps({"hold_id": str(uuid.uuid4()), "user_id": "nobody", "cart_token": "x",
                       "expires_at": now + seconds * 1000, "held_at": now, "version": 99})


def test_a_stale_key_does_not_make_a_free_seat_unsellable(client, redis, org, event, check_audit):
    redis.set(seat_key(org, event, "A-1"), foreign_lock(), px=600_000)
    hold = client.hold_one(event, "A-1").expect(201).json
    wait_until(lambda: hold["hold_id"] in (redis.get(seat_key(org, event, "A-1")) or ""), what="the key is repaired")
    check_audit(event)


@pytest.mark.parametrize("value", ["", "no json", "[]", "{}", '{"hold_id":7}'])
def test_a_key_that_is_nonsense_changes_nothing(client, redis, org, event, value):
    redis.set(seat_key(org, event, "A-1"), value)
    client.hold_one(event, "A-1").expect(201)


def test_a_key_of_the_wrong_type_changes_nothing(client, redis, org, event):
    redis.rpush(seat_key(org, event, "A-1"), "x")
    client.hold_one(event, "A-1").expect(201)


def test_a_lost_key_does_not_sell_a_seat_twice(client, other, redis, org, event, check_audit):
    client.held(event, "A-1")
    redis.delete(seat_key(org, event, "A-1"))
    other.hold_one(event, "A-1").expect(409, "seat_taken")
    check_audit(event)


def test_a_held_seat_has_a_key_that_ends_after_the_hold(client, redis, org, event):
    hold = client.held(event, "A-1")
    key = seat_key(org, event, "A-1")
    value = json.loads(wait_until(lambda: redis.get(key), what="the key is written"))
    assert value["hold_id"] == hold["hold_id"]
    assert value["user_id"] == client.user
    assert 0 <= redis.pttl(key) / 1000 - hold["expires_in_seconds"] <= 61


def test_a_cancelled_hold_takes_its_own_key_away_and_no_other(client, redis, org, event):
    hold = client.held(event, "A-1", "A-2")
    another = foreign_lock()
    wait_until(lambda: redis.get(seat_key(org, event, "A-2")), what="the keys are written")
    redis.set(seat_key(org, event, "A-2"), another)
    client.cancel(hold["hold_id"]).expect(200)
    wait_until(lambda: redis.get(seat_key(org, event, "A-1")) is None, what="its key is gone")
    assert redis.get(seat_key(org, event, "A-2")) == another


# --- whatever stands in Redis ------------------------------------------------------------------------------------


def wrong_values():
    far = 4_000_000_000_000
    return {
        "another hold": (foreign_lock(), 600_000),
        "another hold without an end": (foreign_lock(), None),
        "another hold in the far future": (foreign_lock(10**9), 10**12),
        "a hold that is long over": (foreign_lock(-10**6), 600_000),
        "a version beyond all others": (json.dumps(json.loads(foreign_lock()) | {"version": 2**62}), None),
        "the wrong types": (json.dumps({"hold_id": 7, "user_id": [], "version": "x", "expires_at": {}}), None),
        "deep nesting": ("[" * 5000, None),
        "half of it": (foreign_lock()[:40], None),
        "bytes that are no text": (b"\xff\x00\xfe" * 100, None),
        "a megabyte": ("x" * 1_000_000, far - 3_999_999_000_000),
    }


@pytest.mark.parametrize("name", wrong_values())
def test_no_wrong_key_refuses_a_free_seat_or_frees_a_held_one(client, other, redis, org, event, name, prove):
    value, ttl = wrong_values()[name]
    redis.set(seat_key(org, event, "A-1"), value, px=ttl)
    assert client.seat_status(event, "A-1") in ("available", "held")  # a GET may be served from it
    hold = client.hold_one(event, "A-1").expect(201).json
    redis.set(seat_key(org, event, "A-1"), value, px=ttl)
    other.hold_one(event, "A-1").expect(409, "seat_taken")
    client.extend(hold["hold_id"]).expect(200)
    redis.set(seat_key(org, event, "A-1"), value, px=ttl)
    client.cancel(hold["hold_id"]).expect(200)
    other.hold_one(event, "A-1").expect(201)
    prove(event)


@pytest.mark.parametrize("kind", ["list", "hash", "set", "zset", "stream"])
@pytest.mark.parametrize("suffix", [":seat:A-1", ":seat_holds", ":occupancy", ":seat_map"])
def test_keys_of_the_wrong_type_change_nothing(client, other, redis, org, event, kind, suffix, prove):
    key = f"holdfast:{{org:{org}:event:{event}}}{suffix}"
    make = {"list": lambda: redis.rpush(key, "x"), "hash": lambda: redis.hset(key, "x", "y"),
            "set": lambda: redis.sadd(key, "x"), "zset": lambda: redis.zadd(key, {"x": 1}),
            "stream": lambda: redis.xadd(key, {"x": "y"})}
    redis.delete(key)
    make[kind]()
    hold = client.hold_one(event, "A-1").expect(201).json
    other.hold_one(event, "A-1").expect(409, "seat_taken")
    assert client.seats(event).expect(200).json["seats"][0]["status"] == "held"
    wait_until(lambda: client.occupancy(event).expect(200).json["held"] == 1, what="it is counted")
    client.confirm(hold["hold_id"]).expect(200)
    other.hold_one(event, "A-1").expect(409, "seat_sold")
    prove(event)


def test_a_redis_that_is_wiped_again_and_again_changes_no_answer(admin, redis, event_of_many, prove):
    """Everybody buys seats of their own and tries those of others, while Redis forgets."""
    event, told = event_of_many, []

    def buy(number):
        user, rival = admin.as_user(), admin.as_user()
        for n in range(number, 400, 20):
            answer = yield hold_shot(user, event, f"A-{n + 1}", cart=f"cart-{n}")
            told.append(answer.expect(201).json)
            if n % 7 == 0:
                redis.flushdb()
            answer = yield hold_shot(rival, event, f"A-{n + 1}")
            answer.expect(409, "seat_taken")
        return True

    assert all(drive([buy(number) for number in range(20)]))
    prove(event, told)


@pytest.mark.parametrize("accident", ["pause", "kill"])
def test_a_redis_that_goes_away_in_the_middle_changes_no_answer(
        admin, start_node, own_redis, event_of_many, accident, prove):
    event, told = event_of_many, []
    node = start_node(redis_url=own_redis.url())

    def buy(number):
        user, rival = admin.as_user().at(node), admin.as_user().at(node)
        for n in range(number, 400, 20):
            if n == 200:
                getattr(own_redis, accident)()
            answer = yield hold_shot(user, event, f"A-{n + 1}", cart=f"cart-{n}")
            told.append(answer.expect(201).json)
            answer = yield hold_shot(rival, event, f"A-{n + 1}")
            answer.expect(409, "seat_taken")
        return True

    assert all(drive([buy(number) for number in range(20)]))
    own_redis.resume()
    prove(event, told)


@pytest.fixture
def event_of_many(admin):
    return admin.make_event(400)
