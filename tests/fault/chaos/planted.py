"""Values that don't belong into Redis. None of them may make a wrong answer, or keep a seat from being sold."""

import json
import uuid

KINDS = ("other type", "no json", "foreign", "without end", "far future", "old truth", "wrong set", "strange member")


def seat_key(org, event, seat):
    return f"holdfast:{{org:{org}:event:{event}}}:seat:{seat}"


def set_key(org, event):
    return f"holdfast:{{org:{org}:event:{event}}}:seat_holds"


def value(user, expires_at, version, of):
    """`of`: the seat that it claims to be of."""
    return json.dumps({"hold_id": str(uuid.uuid4()), "user_id": user, "cart_token": "planted", "expires_at": expires_at,
                       "held_at": "2020-01-01T00:00:00.000Z", "seat": of, "as_of": "2020-01-01T00:00:00.000Z",
                       "version": version}, separators=(",", ":"))


def plant(redis, draw, org, event, seats, remembered):
    """One wrong value; `remembered` are true ones of some time ago: {key: value}. Returns its kind."""
    kind = draw.choice(KINDS)
    seat = draw.choice(seats)
    PLANTERS[kind](redis, org, event, seat, remembered)
    return kind


def another_type(redis, org, event, seat, _):
    key = seat_key(org, event, seat)
    redis.delete(key)
    redis.rpush(key, "a list")


def no_json(redis, org, event, seat, _):
    redis.set(seat_key(org, event, seat), '{"hold_id": "half of', px=60000)


def foreign(redis, org, event, seat, _):
    """As another organization's key would read."""
    theirs = value("a-stranger", "2099-01-01T00:00:00.000Z", 7, f"another-{org}/{event}/{seat}")
    redis.set(seat_key(org, event, seat), theirs, px=60000)


def without_end(redis, org, event, seat, _):
    redis.set(seat_key(org, event, seat), value("buyer-1", "2020-01-01T00:00:05.000Z", 3, f"{org}/{event}/{seat}"))


def far_future(redis, org, event, seat, _):
    redis.set(seat_key(org, event, seat), value("buyer-1", "2199-01-01T00:00:00.000Z", 2**52, f"{org}/{event}/{seat}"))


def old_truth(redis, org, event, seat, remembered):
    """What was true of this seat, or of any other, when the fault began."""
    key = seat_key(org, event, seat)
    old = remembered.get(key) or next(iter(remembered.values()), None)
    if old is not None:
        redis.set(key, old, px=120000)


def wrong_set(redis, org, event, _, __):
    redis.set(set_key(org, event), "no sorted set")


def strange_member(redis, org, event, seat, _):
    key = set_key(org, event)
    if redis.type(key) in (b"zset", b"none"):
        redis.zadd(key, {f"{seat}:{uuid.uuid4()}:a-stranger": 4102444800000, "nonsense": 1})


PLANTERS = dict(zip(KINDS, (another_type, no_json, foreign, without_end, far_future, old_truth, wrong_set,
                            strange_member)))


def remember(redis, org, event, seats):
    """The values that stand now."""
    keys = [seat_key(org, event, seat) for seat in seats]
    found = {}
    for key in keys:
        if redis.type(key) == b"string":
            found[key] = redis.get(key)
    return found
