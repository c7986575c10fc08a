"""GET /api/admin/audit: who did what, from where, and why; and the months that the log is kept in."""

import datetime
import threading
import uuid

import pytest

from support.contract import check_problem, time_of
from support.tables import query
from support.waiting import wait_until

NODE_SETTINGS = {"trusted_proxies": "127.0.0.0/8"}
ADDRESS = "203.0.113.77"
AGENT = "audit-test/1.0 (öäü)"
AGENT_KEPT = "audit-test/1.0 (??????)"     # what isn't plain ASCII comes byte by byte


@pytest.fixture(name="from_afar")
def fixture_from_afar():
    """Headers of a request that a trusted proxy passed on."""
    return {"X-Forwarded-For": f"198.51.100.9, {ADDRESS}", "User-Agent": AGENT.encode(), "X-Request-Id": str(uuid.uuid4())}


def page(admin, **filters):
    query_text = "&".join(f"{name}={value}" for name, value in filters.items() if value is not None)
    return admin.get(f"/api/admin/audit?{query_text}")


def entries(admin, **filters):
    return page(admin, **filters).expect(200).json["entries"]


def all_pages(admin, limit, **filters):
    """Every entry that fits, page by page."""
    found, after = [], None
    while True:
        answer = page(admin, limit=limit, after=after, **filters).expect(200).json
        found += answer["entries"]
        assert len(answer["entries"]) == limit or "next" not in answer
        if "next" not in answer:
            return found
        after = answer["next"]


def is_time_held(released, created_at, more=0):
    """What the entry says of how long the hold was held: whole seconds from its birth (`more` before `created_at`)."""
    lived = (time_of(released["timestamp"]) - time_of(created_at)).total_seconds() + more
    return abs(released["changes"]["held_duration_seconds"] - lived) <= 1.01


def make_entries(db, org, count, event="e-1", begin=datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
                 every="1 second", columns="seat_id", values="'A-' || g %% 7", action="seat_held"):
    """Entries as a statement writes them, at times of their own."""
    with db.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO audit_log (at, version, action, org_id, event_id, {columns}) "
            f"SELECT %s + g * interval '{every}', g, %s, %s, %s, {values} FROM generate_series(1, %s) g",
            (begin, action, org, event, count))


# --- what entries say ----------------------------------------------------------------------------------------


def test_a_hold_from_its_beginning_to_its_end(client, admin, event, org, from_afar, check_audit):
    hold = client.hold(event, "A-1", headers=from_afar).expect(201).json
    client.post(f"/api/holds/{hold['hold_id']}/extend", {"seconds": 60}, headers=from_afar).expect(200)
    client.delete(f"/api/holds/{hold['hold_id']}", headers=from_afar).expect(200)
    released, extended, held = entries(admin, hold_id=hold["hold_id"])
    for entry in (released, extended, held):
        assert entry["entity_type"] == "SeatHold" and entry["entity_id"] == hold["hold_id"]
        assert entry["actor"] == client.user
        assert entry["metadata"]["ip"] == ADDRESS
        assert entry["metadata"]["request_id"] == from_afar["X-Request-Id"]
        assert entry["changes"]["event_id"] == event and entry["changes"]["seat_id"] == "A-1"
        assert entry["changes"]["hold_id"] == hold["hold_id"] and entry["changes"]["user_id"] == client.user
    assert [entry["action"] for entry in (held, extended, released)] == ["seat_held", "hold_extended", "seat_released"]
    assert [entry["changes"]["version"] for entry in (held, extended, released)] == [1, 2, 3]
    assert held["changes"]["new_status"] == "active" and held["changes"]["held_until"] == hold["expires_at"]
    assert "previous_status" not in held["changes"] and held["metadata"]["scenario"] is None
    assert held["metadata"]["user_agent"] is None        # would cost every hold 3 %
    assert extended["changes"]["held_until"] > held["changes"]["held_until"]
    assert extended["metadata"]["user_agent"] == released["metadata"]["user_agent"] == AGENT_KEPT
    assert (released["changes"]["previous_status"], released["changes"]["new_status"]) == ("active", "cancelled")
    assert released["changes"]["reason"] == released["metadata"]["scenario"] == "user_cancelled"
    assert is_time_held(released, hold["created_at"])
    check_audit(event)


def test_how_long_a_hold_was_held_is_counted_from_its_birth(client, admin, event, db):
    made = client.held(event, "A-1")
    hold = made["hold_id"]
    client.cancel(hold).expect(200)
    with db.cursor() as cursor:
        cursor.execute("UPDATE seat_holds SET created_at = created_at - interval '100 seconds' WHERE hold_id = %s", (hold,))
    [released] = entries(admin, hold_id=hold, action="seat_released")
    assert is_time_held(released, made["created_at"], more=100)


def test_what_the_system_does_has_no_actor_and_comes_from_nowhere(client, admin):
    event = admin.make_event(2, policy={"hold_ttl": 1})
    made = client.held(event, "A-1")
    hold = made["hold_id"]
    [released] = wait_until(lambda: entries(admin, hold_id=hold, action="seat_released"), timeout=15)
    assert released["actor"] is None
    assert released["metadata"]["ip"] is None and released["metadata"]["user_agent"] is None
    assert released["metadata"]["scenario"] == released["changes"]["reason"] == "ttl_expired"
    assert released["changes"]["new_status"] == "expired"
    assert is_time_held(released, made["created_at"]) and released["changes"]["held_duration_seconds"] >= 1


def test_a_sale(client, admin, event, from_afar):
    hold = client.held(event, "A-3")["hold_id"]
    client.post(f"/api/holds/{hold}/confirm", {}, headers=from_afar).expect(200)
    [sold] = entries(admin, hold_id=hold, action="seat_sold")
    assert (sold["changes"]["previous_status"], sold["changes"]["new_status"]) == ("active", "converted")
    assert sold["actor"] == client.user and sold["metadata"]["ip"] == ADDRESS
    assert sold["metadata"]["user_agent"] == AGENT_KEPT and sold["metadata"]["scenario"] is None


def test_seats_taken_off_sale_and_put_on_again(admin, event, from_afar):
    for path, reason in (("block", "rain"), ("unblock", "sun")):
        admin.post(f"/api/admin/seats/{path}", {"event_id": event, "seat_ids": ["A-2"], "reason": reason},
                   headers=from_afar).expect(200)
    unblocked, blocked = entries(admin, seat_id="A-2")
    assert (blocked["action"], unblocked["action"]) == ("seat_blocked", "seat_unblocked")
    for entry, before, after, reason in ((blocked, "available", "blocked", "rain"),
                                         (unblocked, "blocked", "available", "sun")):
        assert entry["entity_type"] == "Seat" and entry["entity_id"] == "A-2"
        assert (entry["changes"]["previous_status"], entry["changes"]["new_status"]) == (before, after)
        assert entry["changes"]["reason"] == reason and entry["actor"] == admin.user
        assert entry["metadata"] == {"scenario": None, "ip": ADDRESS, "user_agent": AGENT_KEPT,
                                     "request_id": from_afar["X-Request-Id"]}


def test_events_imports_and_removed_seats(admin, event, from_afar):
    admin.put(f"/api/events/{event}", {"kind": "event", "name": "renamed", "status": "on_sale"}, headers=from_afar).expect(200)
    admin.request("POST", f"/api/events/{event}/seats/import", body=b"seat_id,section,row,number\nA-1,gold,A,1\nB-9,gold,B,9\n",
                  headers=from_afar | {"Content-Type": "text/csv"}).expect(200)
    admin.delete(f"/api/events/{event}/seats/A-5", headers=from_afar).expect(200)
    found = entries(admin, event_id=event)[:4]
    assert sorted(entry["action"] for entry in found) == ["event_changed", "event_changed", "seat_changed", "seat_removed"]
    for entry in found:
        assert entry["actor"] == admin.user and entry["metadata"]["ip"] == ADDRESS, entry
        assert entry["metadata"]["user_agent"] == AGENT_KEPT
    imported = [entry for entry in found if entry["action"] == "event_changed"][0]
    assert imported["entity_type"] == "Event" and imported["entity_id"] == event
    assert imported["changes"]["details"] == {"seats_added": 1, "seats_changed": 1}


def test_areas(client, admin, from_afar):
    event = admin.make_event(1, areas=[{"area_id": "floor", "name": "Floor", "capacity": 10}])
    hold = client.post("/api/holds", {"event_id": event, "areas": [{"area_id": "floor", "quantity": 2}], "cart_token": "c"},
                       headers=from_afar).expect(201).json
    client.patch(f"/api/holds/{hold['hold_id']}", {"areas": [{"area_id": "floor", "quantity": 3}]},
                 headers=from_afar).expect(200)
    changed, held = entries(admin, hold_id=hold["hold_id"])
    assert (held["action"], changed["action"]) == ("seat_held", "hold_changed")
    assert [entry["changes"]["quantity"] for entry in (held, changed)] == [2, 3]
    assert held["changes"]["area_id"] == "floor" and "seat_id" not in held["changes"]
    assert held["metadata"]["ip"] == changed["metadata"]["ip"] == ADDRESS
    assert changed["metadata"]["user_agent"] == AGENT_KEPT


def test_without_a_trusted_proxy_the_peer_is_the_origin(start_node, client, admin, event, from_afar):
    node = start_node(trusted_proxies="")
    hold = client.at(node).hold(event, "A-1", headers=from_afar).expect(201).json["hold_id"]
    [held] = entries(admin, hold_id=hold)
    assert held["metadata"]["ip"] == "127.0.0.1"


# --- filters -------------------------------------------------------------------------------------------------


def test_each_filter_and_all_together(client, other, admin, event):
    mine = client.held(event, "A-1", "A-2")["hold_id"]
    theirs = other.held(event, "A-3")["hold_id"]
    elsewhere = admin.make_event(2)
    client.held(elsewhere, "A-1")
    client.cancel(mine).expect(200)
    assert {entry["entity_id"] for entry in entries(admin, event_id=elsewhere)} >= {elsewhere}
    assert len(entries(admin, seat_id="A-1")) == 3
    assert len(entries(admin, seat_id="A-1", event_id=event)) == 2
    assert {entry["changes"]["seat_id"] for entry in entries(admin, hold_id=mine)} == {"A-1", "A-2"}
    assert [entry["entity_id"] for entry in entries(admin, user_id=other.user)] == [theirs]
    assert len(entries(admin, action="seat_released")) == 2
    assert len(entries(admin, action="event_changed", event_id=event)) == 1
    all_filters = {"event_id": event, "seat_id": "A-2", "hold_id": mine, "user_id": client.user, "action": "seat_released"}
    [entry] = entries(admin, **all_filters)
    assert entry["changes"]["seat_id"] == "A-2" and entry["action"] == "seat_released"
    for name, value in (("event_id", elsewhere), ("seat_id", "A-3"), ("hold_id", theirs), ("user_id", other.user),
                        ("action", "seat_sold")):
        assert entries(admin, **all_filters | {name: value}) == [], name


def test_from_is_taken_in_and_to_is_not(admin, db, org):
    make_entries(db, org, 10)
    stamps = [entry["timestamp"] for entry in entries(admin)]
    assert stamps == [f"2026-01-01T00:00:{second:02}.000Z" for second in range(10, 0, -1)]
    found = entries(admin, **{"from": "2026-01-01T00:00:03Z", "to": "2026-01-01T00:00:06Z"})
    assert [entry["timestamp"] for entry in found] == stamps[5:8]
    found = entries(admin, **{"from": "2026-01-01T02:00:03%2B02:00", "to": "2026-01-01T00:00:06Z", "limit": 2})
    assert [entry["timestamp"] for entry in found] == stamps[5:7]
    assert entries(admin, **{"from": "2026-01-01T00:00:06Z", "to": "2026-01-01T00:00:03Z"}) == []


@pytest.mark.parametrize("name, value, code", [
    ("event_id", "a%20b", "invalid_id"), ("event_id", "", "invalid_id"), ("seat_id", "x" * 65, "invalid_id"),
    ("user_id", "a/b", "invalid_id"), ("hold_id", "1", "invalid_field"), ("action", "seat_stolen", "invalid_field"),
    ("action", "Robert'); DROP", "invalid_field"), ("action", "", "invalid_field"), ("from", "yesterday", "invalid_field"),
    ("to", "1", "invalid_field"), ("from", "1969-12-31T23:59:59Z", "invalid_field"), ("after", "x", "invalid_field"),
    ("after", "12", "invalid_field"), ("after", "-1-1", "invalid_field"), ("after", "1-1x", "invalid_field"),
    ("limit", "0", "invalid_field"), ("limit", "1001", "invalid_field"), ("limit", "x", "invalid_field"),
])
def test_a_filter_that_cannot_be(admin, name, value, code):
    refused = page(admin, **{name: value.replace(" ", "%20").replace("'", "%27")})
    check_problem(refused, code, "/api/admin/audit")
    assert [error["field"] for error in refused.json["errors"]] == [name]


def test_admins_only(client, event, node):
    page(client, event_id=event).expect(403, "forbidden")
    page(client.as_user(role="agent")).expect(403, "forbidden")
    page(client.as_user(role="service")).expect(403, "forbidden")
    type(client)(node, client.org, token="x").get("/api/admin/audit").expect(401)


def test_another_organization_sees_nothing(client, event, admin, node):
    hold = client.held(event, "A-1")["hold_id"]
    stranger = type(admin)(node, f"org-{uuid.uuid4().hex[:8]}", role="admin")
    for filters in ({}, {"event_id": event}, {"hold_id": hold}, {"user_id": client.user}, {"seat_id": "A-1"},
                    {"action": "seat_held"}):
        assert entries(stranger, **filters) == [], filters


# --- pages ---------------------------------------------------------------------------------------------------


def shuffled_log(db, org):
    """An uneven log: thick and thin times, many entries of one time, long silence."""
    day = datetime.datetime(2025, 11, 3, tzinfo=datetime.timezone.utc)
    make_entries(db, org, 400, event="thin", begin=day, every="9 hours")
    make_entries(db, org, 5000, event="thick", begin=day + datetime.timedelta(days=30), every="1 millisecond")
    make_entries(db, org, 3000, event="one-time", begin=day + datetime.timedelta(days=40), every="0 seconds")
    make_entries(db, org, 300, event="thick", begin=day + datetime.timedelta(days=200), every="1 second")


@pytest.mark.parametrize("limit", [1000, 333])
def test_pages_give_each_entry_once_in_order(admin, db, org, limit):
    shuffled_log(db, org)
    expected = [row.id for row in query(db, "SELECT id FROM audit_log WHERE org_id = %s ORDER BY at DESC, id DESC", org)]
    assert len(expected) == 8700
    assert [entry["id"] for entry in all_pages(admin, limit)] == expected


@pytest.mark.parametrize("filters", [{"event_id": "thin"}, {"seat_id": "A-3"}, {"event_id": "one-time", "seat_id": "A-0"},
                                     {"action": "seat_held", "event_id": "thick"}, {"from": "2025-12-03T00:00:02Z"}])
def test_pages_of_a_filter(admin, db, org, filters):
    shuffled_log(db, org)
    conditions = {"event_id": "event_id = %s", "seat_id": "seat_id = %s", "action": "action = %s", "from": "at >= %s"}
    where = " AND ".join(conditions[name] for name in filters)
    expected = [row.id for row in query(db, f"SELECT id FROM audit_log WHERE org_id = %s AND {where} ORDER BY at DESC, "
                                        "id DESC", org, *filters.values())]
    assert len(expected) > 200
    assert [entry["id"] for entry in all_pages(admin, 500, **filters)] == expected


def test_pages_stand_still_while_the_log_grows(client, admin, event, db, org):
    make_entries(db, org, 500, every="1 minute")
    before = [row.id for row in query(db, "SELECT id FROM audit_log WHERE org_id = %s ORDER BY at DESC, id DESC", org)]
    stop = threading.Event()

    def go_on():
        buyer = client.as_user()
        while not stop.is_set():
            buyer.cancel(buyer.held(event, "A-1", "A-2")["hold_id"]).expect(200)

    first = page(admin, limit=10).expect(200).json
    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        wait_until(lambda: len(entries(admin, event_id=event)) > 5)
        found, after = first["entries"], first["next"]
        while after:
            answer = page(admin, limit=10, after=after).expect(200).json
            found += answer["entries"]
            after = answer.get("next")
    finally:
        stop.set()
        writer.join()
    assert [entry["id"] for entry in found] == before


# --- months --------------------------------------------------------------------------------------------------


def months(db):
    return {row.relname for row in query(
        db, "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = 'audit_log'::regclass")}


def name_of(months_from_now):
    today = datetime.datetime.now(datetime.timezone.utc)
    month = today.year * 12 + today.month - 1 + months_from_now
    return f"audit_log_{month // 12}_{month % 12 + 1:02}"


def make_month(db, months_from_now):
    """A month before the first one: its table is cut out of what the first one covers."""
    begin = datetime.datetime.strptime(name_of(months_from_now), "audit_log_%Y_%m")
    end = datetime.datetime.strptime(name_of(months_from_now + 1), "audit_log_%Y_%m")
    with db.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name_of(months_from_now)} (LIKE audit_log)")
        cursor.execute(f"ALTER TABLE audit_log ATTACH PARTITION {name_of(months_from_now)} "
                       f"FOR VALUES FROM ('{begin}+00') TO ('{end}+00')")


def test_months_are_made_ahead(node, db):
    names = [name_of(month) for month in range(0, 4)]
    ahead = set(names)
    wait_until(lambda: ahead | {"audit_log_default"} <= months(db), timeout=30)  # this month may just have begun
    with db.cursor() as cursor:
        cursor.execute(f"DROP TABLE {names[2]}, {names[3]}")
    wait_until(lambda: ahead <= months(db), timeout=30)
    wait_until(lambda: "audit_months_made" in node.log_text(), timeout=10)


def test_what_no_month_took_moves_into_its_month(node, db, org):
    begin = datetime.datetime.strptime(name_of(3) + "+0000", "audit_log_%Y_%m%z")
    with db.cursor() as cursor:
        cursor.execute(f"DROP TABLE {name_of(3)}")
        make_entries(db, org, 3, begin=begin)
    wait_until(lambda: name_of(3) in months(db), timeout=30)
    assert query(db, "SELECT count(*) AS n FROM audit_log WHERE org_id = %s", org)[0].n == 3
    assert query(db, "SELECT count(*) AS n FROM audit_log_default")[0].n == 0
    assert query(db, f"SELECT count(*) AS n FROM {name_of(3)} WHERE org_id = %s", org)[0].n == 3


def test_months_past_their_time_are_dropped_and_no_others(db, node):
    """The node's audit_retention is 400 days; the first month is moved so that older ones can stand beside it."""
    first = name_of(0)
    with db.cursor() as cursor:
        cursor.execute("BEGIN")  # or the node would make the month that it misses
        cursor.execute("SELECT pg_advisory_xact_lock(7525352680829580149)")  # of make_audit_months
        cursor.execute(f"ALTER TABLE audit_log DETACH PARTITION {first}")
        cursor.execute(f"ALTER TABLE {first} RENAME TO audit_log_first")
        make_month(db, -15)
        make_month(db, -12)
        make_month(db, 0)
        cursor.execute(f"INSERT INTO {first} SELECT * FROM audit_log_first WHERE at >= date_trunc('month', now(), 'UTC')")
        cursor.execute("DROP TABLE audit_log_first")
        cursor.execute("COMMIT")
    wait_until(lambda: name_of(-15) not in months(db), timeout=30)
    assert {name_of(-12), name_of(0), name_of(3), "audit_log_default"} <= months(db)
    wait_until(lambda: "audit_month_dropped" in node.log_text(), timeout=10)
    with db.cursor() as cursor:
        cursor.execute(f"DROP TABLE {name_of(-12)}")


def test_the_indexes_learn_what_was_written(node, db, org):
    """Ranges that were not summarized are read as a whole: some seconds later there are none."""
    make_entries(db, org, 20_000, begin=datetime.datetime.now(datetime.timezone.utc), every="0 seconds")

    def ranges_left():
        with db.cursor() as cursor:
            cursor.execute("SELECT sum(brin_summarize_new_values(i.indexrelid)) FROM pg_index i JOIN pg_class c ON "
                           "c.oid = i.indexrelid WHERE i.indrelid = %s::regclass AND c.relam = "
                           "(SELECT oid FROM pg_am WHERE amname = 'brin')", (name_of(0),))
            return cursor.fetchone()[0]

    assert query(db, "SELECT pg_relation_size(%s) / 8192 AS pages", name_of(0))[0].pages > 2 * 64
    for _ in range(2):  # upkeep makes months and then learns, every 10 s: the second time it is through with the first
        with db.cursor() as cursor:
            cursor.execute(f"DROP TABLE {name_of(3)}")
        wait_until(lambda: name_of(3) in months(db), timeout=30)
    assert ranges_left() == 0
