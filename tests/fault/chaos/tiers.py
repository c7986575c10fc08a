"""Redis beside Postgres: whether the warm tier of an organization says what Postgres says, key by key."""

import itertools
import json
import re

import psycopg2.extras

EVENT_KEY = re.compile(r"holdfast:\{org:(?P<org>[^:}]*):event:(?P<event>[^:}]*)\}:(?P<what>.*)")


def differences(db, redis, org, but=()):
    """What differs, as texts, in all events `but` these. What changes meanwhile may differ once; what is wrong differs
    again."""
    held = held_seats(db, org)
    found = itertools.chain(seat_differences(redis, org, held), member_differences(redis, org, held))
    return [f"{event}: {what}" for event, what in found if event not in but]


def held_seats(db, org):
    """{(event, seat): row} of the seats that are held, and not over, in Postgres."""
    with db.cursor(cursor_factory=psycopg2.extras.NamedTupleCursor) as cursor:
        cursor.execute("""
            SELECT event_id, seat_id, hold_id::text, user_id, version, held_until,
                   floor(extract(epoch FROM held_until) * 1000)::bigint AS ends_ms,
                   to_char(date_trunc('milliseconds', held_until) AT TIME ZONE 'UTC',
                           'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS ends
            FROM seats WHERE org_id = %s AND status = 'held' AND held_until > clock_timestamp()""", (org,))
        return {(row.event_id, row.seat_id): row for row in cursor.fetchall()}


def keys_of(redis, org):
    """(event, what, key) of every key of the organization."""
    for key in redis.scan_iter(f"holdfast:{{org:{org}:event:*", count=1000):
        found = EVENT_KEY.fullmatch(key.decode())
        if found and found["org"] == org:
            yield found["event"], found["what"], key


def seat_differences(redis, org, held):
    seen = set()
    for event, what, key in keys_of(redis, org):
        if not what.startswith("seat:"):
            continue
        seat = what.removeprefix("seat:")
        row = held.get((event, seat))
        if row is None:
            yield event, f"{seat}: Redis has {value_of(redis, key)}, in Postgres nobody has it"
            continue
        seen.add((event, seat))
        wrong = wrong_value(redis, key, row)
        if wrong:
            yield event, f"{seat}: {wrong}"
    for event, seat in held.keys() - seen:
        yield event, f"{seat}: Postgres has {held[event, seat]}, Redis nothing"


def value_of(redis, key):
    kind = redis.type(key)
    return redis.get(key) if kind == b"string" else kind


def wrong_value(redis, key, row):
    text = value_of(redis, key)
    try:
        value = json.loads(text)
        told = (value["hold_id"], value["user_id"], value["version"], value["expires_at"])
    except (ValueError, KeyError, TypeError):
        return f"Redis has {text}"
    if told != (row.hold_id, row.user_id, row.version, row.ends):
        return f"Redis has {told}, Postgres {row}"
    ttl_ms = redis.pttl(key)
    if not 0 < ttl_ms <= 130_000:  # what is left of the hold, at most 60 s here, and 60 s more
        return f"lives for {ttl_ms} ms"
    return None


def member_differences(redis, org, held):
    found = {}
    for event, what, key in keys_of(redis, org):
        if what != "seat_holds":
            continue
        if redis.type(key) != b"zset":
            yield event, f"seat_holds is a {redis.type(key)}"
            continue
        found |= {(event, member.decode(errors="replace")): int(score)
                  for member, score in redis.zrange(key, 0, -1, withscores=True)}
    wanted = {(row.event_id, f"{row.seat_id}:{row.hold_id}:{row.user_id}"): row.ends_ms for row in held.values()}
    for event, member in wanted.keys() | found.keys():
        told, true = found.get((event, member)), wanted.get((event, member))
        if told != true:
            yield event, f"member {member}: Redis {told}, Postgres {true}"
