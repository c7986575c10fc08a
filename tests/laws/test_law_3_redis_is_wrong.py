"""Law 3: if Redis and Postgres disagree, Redis is wrong, and gets repaired."""

import json
import time
import uuid

import pytest

from support.waiting import wait_until


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
