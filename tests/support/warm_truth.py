"""What Redis should have of an event, by what Postgres says. Shares no code with the server."""

import json

from support.tables import query


def prefix(org, event):
    return f"holdfast:{{org:{org}:event:{event}}}"


def time_text(at):
    """RFC 3339 with milliseconds, rounded down."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03}Z"


def unix_ms(at):
    return int(at.timestamp()) * 1000 + at.microsecond // 1000


def held_lines(db, org, event):
    return query(db, "SELECT s.seat_id, s.hold_id::text, s.user_id, s.version, "
                 "s.held_until AT TIME ZONE 'UTC' AS until, h.created_at AT TIME ZONE 'UTC' AS born, s.held_until, "
                 "h.cart_token, h.source FROM seats s JOIN seat_holds h ON h.org_id = s.org_id AND "
                 "h.event_id = s.event_id AND h.seat_id = s.seat_id AND h.hold_id = s.hold_id AND h.status = 'active' "
                 "WHERE s.org_id = %s AND s.event_id = %s AND s.status = 'held' AND s.held_until > clock_timestamp()",
                 org, event)


def wanted(db, org, event):
    """{seat: value}, {member: score}, {hold: meta} as they should stand."""
    values, members, metas = {}, {}, {}
    for line in held_lines(db, org, event):
        values[line.seat_id] = {
            "hold_id": line.hold_id, "user_id": line.user_id, "cart_token": line.cart_token,
            "expires_at": time_text(line.until), "held_at": time_text(line.born), "version": line.version}
        members[f"{line.seat_id}:{line.hold_id}:{line.user_id}"] = unix_ms(line.held_until)
        metas[line.hold_id] = {
            "hold_id": line.hold_id, "user_id": line.user_id, "event_id": event, "held_until": time_text(line.until),
            "created_at": time_text(line.born), "source": line.source, "status": "active"}
    return values, members, metas


def read_value(text, known):
    """A seat's value as far as we know its fields; what is no JSON stays as it is."""
    try:
        value = json.loads(text)
        return {name: value.get(name) for name in known}
    except (ValueError, AttributeError):
        return text


FIELDS = ("hold_id", "user_id", "cart_token", "expires_at", "held_at", "version")


def found(redis, org, event):
    """The same, as it stands. A key of another type shows as its type."""
    start, values, members = prefix(org, event) + ":seat:", {}, {}
    for key in redis.scan_iter(start.replace("[", "\\[") + "*", count=1000):
        kind = redis.type(key)
        text = redis.get(key) if kind == "string" else kind
        if text is not None and kind != "none":  # it may go while we look
            values[key.removeprefix(start)] = read_value(text, FIELDS) if kind == "string" else kind
    kind = redis.type(prefix(org, event) + ":seat_holds")
    if kind == "zset":
        members = {name: int(score) for name, score in redis.zrange(prefix(org, event) + ":seat_holds", 0, -1,
                                                                     withscores=True)}
    elif kind != "none":
        members = kind
    return values, members


def found_meta(redis, org, event, hold):
    key = f"{prefix(org, event)}:hold:{hold}:meta"
    kind = redis.type(key)
    return redis.hgetall(key) if kind == "hash" else kind


def differences(db, redis, org, event):
    """What Redis has otherwise than Postgres; empty: they agree."""
    values, members, metas = wanted(db, org, event)
    seen_values, seen_members = found(redis, org, event)
    different = [("seat", seat, values.get(seat), seen_values.get(seat))
                 for seat in values.keys() | seen_values.keys() if values.get(seat) != seen_values.get(seat)]
    if seen_members != members:
        different.append(("seat_holds", members, seen_members))
    for hold, meta in metas.items():
        seen = found_meta(redis, org, event, hold)
        if seen != meta:
            different.append(("meta", hold, meta, seen))
    return different
