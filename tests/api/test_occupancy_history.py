"""GET /api/events/{event}/occupancy/history: snapshots, who writes them, and how they are read."""

import datetime

import pytest

from support.bystander import holding, trigger
from support.client import Client
from support.contract import check_problem
from support.tables import query
from support.waiting import wait_until

NODE_SETTINGS = {"occupancy_interval": "500ms", "occupancy_retention": "87600h"}  # what is read here is of 2026
EACH_MINUTE = NODE_SETTINGS | {"occupancy_interval": "60s"}
NOBODY_WRITES = "SELECT pg_advisory_xact_lock(hashtextextended('holdfast occupancy_snapshots', 0))"
BEGIN = datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.timezone.utc)


def minute(n, seconds=0):
    return BEGIN + datetime.timedelta(minutes=n, seconds=seconds)


def text(time):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def write(db, org, event, minutes, total=100):
    """A snapshot each of these minutes: the nth has n seats held."""
    for n in minutes:
        query(db, "INSERT INTO occupancy_snapshots (org_id, event_id, at, available, held, sold, blocked)"
                  " VALUES (%s, %s, %s, %s, %s, 3, 2) RETURNING 1", org, event, minute(n), total - 5 - n, n)


def history(client, event, **asked):
    return client.get(f"/api/events/{event}/occupancy/history", query=asked)


def minutes_told(client, event, **asked):
    return [snapshot["held"] for snapshot in history(client, event, **asked).expect(200).json["snapshots"]]


def snapshots_of(db, org, event):
    return query(db, "SELECT at, available, held, sold, blocked FROM occupancy_snapshots"
                     " WHERE org_id = %s AND event_id = %s ORDER BY at", org, event)


# --- reading ---------------------------------------------------------------------------------------------------


def test_a_snapshot_has_all_of_the_contract(client, event, db, org):
    write(db, org, event, [7])
    told = history(client, event, from_=text(minute(0)), to=text(minute(10))).expect(200).json
    assert told == {"snapshots": [
        {"timestamp": text(minute(7)), "available": 88, "held": 7, "sold": 3, "blocked": 2, "total": 100}]}


def test_gaps_are_gaps_and_both_ends_count(client, event, db, org):
    write(db, org, event, [0, 1, 2, 5, 6, 9])
    assert minutes_told(client, event, from_=text(minute(0)), to=text(minute(9))) == [0, 1, 2, 5, 6, 9]
    assert minutes_told(client, event, from_=text(minute(1)), to=text(minute(6))) == [1, 2, 5, 6]
    assert minutes_told(client, event, from_=text(minute(3)), to=text(minute(4))) == []
    assert minutes_told(client, event, from_=text(minute(2, 1)), to=text(minute(6, 59))) == [5, 6]


def test_of_each_step_the_first_snapshot_is_told(client, event, db, org):
    write(db, org, event, [0, 1, 4, 7, 8, 9, 10, 21])
    at = {"from_": text(minute(0)), "to": text(minute(30))}
    assert minutes_told(client, event, step=60, **at) == [0, 1, 4, 7, 8, 9, 10, 21]
    assert minutes_told(client, event, step=300, **at) == [0, 7, 10, 21]
    assert minutes_told(client, event, step=600, **at) == [0, 10, 21]
    assert minutes_told(client, event, step=300, from_=text(minute(1)), to=text(minute(30))) == [1, 7, 10, 21]


def test_without_a_step_some_1500_snapshots_come_at_the_most(start_node, client, event, db, org):
    client = client.at(start_node(**EACH_MINUTE))
    write(db, org, event, range(0, 90))
    assert len(minutes_told(client, event, from_=text(minute(0)), to=text(minute(1440)))) == 90
    assert minutes_told(client, event, from_=text(minute(0)), to=text(minute(14_400)))[:3] == [0, 10, 20]
    assert len(minutes_told(client, event, from_="1970-01-01T00:00:00Z", to="2026-06-01T00:00:00Z")) == 1


def test_without_a_time_the_last_day_is_told(client, event, db, org):
    query(db, "INSERT INTO occupancy_snapshots (org_id, event_id, at, available, held, sold, blocked) SELECT %s, %s,"
              " date_trunc('minute', clock_timestamp()) - make_interval(hours => h), 1, h, 0, 0"
              " FROM unnest(ARRAY[2, 23, 25]) h RETURNING 1", org, event)
    told = minutes_told(client, event)
    assert told[:2] == [23, 2] and 25 not in told


def test_without_an_end_nothing_is_too_new(client, admin, database_url, db, org):
    """However wrong the node's idea of the database's clock is, within its error."""
    with holding(database_url, NOBODY_WRITES):
        event = admin.make_event(1)
        query(db, "INSERT INTO occupancy_snapshots (org_id, event_id, at, available, held, sold, blocked)"
                  " VALUES (%s, %s, clock_timestamp() + interval '900 ms', 0, 77, 0, 0) RETURNING 1", org, event)
        assert minutes_told(client, event) == [77]


@pytest.mark.parametrize("asked, field", [
    ({"from_": "yesterday"}, "from"), ({"to": "2026-13-01T00:00:00Z"}, "to"), ({"to": ""}, "to"),
    ({"from_": text(minute(1)), "to": text(minute(0))}, "from"), ({"from_": "2999-01-01T00:00:00Z"}, "from"),
    ({"step": "0"}, "step"), ({"step": "-60"}, "step"),
    ({"step": "a"}, "step"), ({"step": "60.0"}, "step"), ({"step": ""}, "step"), ({"step": "99999999999"}, "step"),
    ({"from_": text(minute(0)), "to": text(minute(10_080)), "step": 60}, "step")])
def test_a_bad_question_is_refused_and_says_what_is_wrong(client, event, asked, field):
    answer = history(client, event, **asked).expect(400, "invalid_field")
    check_problem(answer, "invalid_field")
    assert [error["field"] for error in answer.json["errors"]] == [field]


@pytest.mark.parametrize("settings, good, bad, least", [
    ({}, 60, [1, 30, 61, 90], 60), ({"occupancy_interval": "90s"}, 120, [90], 60),
    ({"occupancy_interval": "5s"}, 15, [1, 6, 61], 5), ({"occupancy_interval": "100ms"}, 1, [0], 1)])
def test_a_step_is_of_minutes_or_of_what_is_between_two_snapshots(start_node, client, event, db, org, settings, good,
                                                                  bad, least):
    write(db, org, event, [1])
    reader = client.at(start_node(**EACH_MINUTE | settings))
    at = {"from_": text(minute(0)), "to": text(minute(10))}
    assert minutes_told(reader, event, step=good, **at) == minutes_told(reader, event, step=least, **at) == [1]
    for step in bad:
        answer = history(reader, event, step=step, **at)
        assert [error["field"] for error in check_problem(answer, "invalid_field")["errors"]] == ["step"]


def test_events_that_are_not_there_have_no_history(client, node, event, db, org):
    write(db, org, event, [1])
    check_problem(history(client, "nowhere"), "event_not_found")
    check_problem(history(Client(node, "another-org", "user-1"), event), "event_not_found")


# --- writing ---------------------------------------------------------------------------------------------------


def test_an_event_on_sale_has_a_snapshot_each_round(client, admin, db, org):
    event = admin.make_event(6, areas=[{"area_id": "floor", "name": "Floor", "capacity": 4}])
    wait_until(lambda: (10, 0, 0, 0) in [row[1:] for row in snapshots_of(db, org, event)], timeout=20)
    client.hold(event, "A-1", "A-2", areas=[{"area_id": "floor", "quantity": 3}]).expect(201)
    client.confirm(client.held(event, "A-3", cart="c2")["hold_id"]).expect(200)
    admin.post("/api/admin/seats/block", {"event_id": event, "seat_ids": ["A-4"], "reason": "x"}).expect(200)
    wait_until(lambda: snapshots_of(db, org, event)[-1][1:] == (3, 5, 1, 1), timeout=20)
    first = snapshots_of(db, org, event)[-1][0]
    wait_until(lambda: len(snapshots_of(db, org, event)) >= 4 and snapshots_of(db, org, event)[-1][0] > first, timeout=20)
    times = [row[0] for row in snapshots_of(db, org, event)]
    assert all(time.microsecond % 500_000 == 0 for time in times) and len(set(times)) == len(times)
    told = history(client, event).expect(200).json["snapshots"]
    assert told and all(t["available"] + t["held"] + t["sold"] + t["blocked"] == t["total"] == 10 for t in told)


def test_an_event_that_is_not_on_sale_has_one_after_each_change(client, admin, db, org):
    event, beside = admin.make_event(5), admin.make_event(1)

    def rounds_later(count):
        since = snapshots_of(db, org, beside)[-1][0]
        wait_until(lambda: len([row for row in snapshots_of(db, org, beside) if row[0] > since]) >= count, timeout=20)

    hold = client.held(event, "A-1", "A-2")
    admin.set_event(event, status="closed")
    wait_until(lambda: snapshots_of(db, org, beside), timeout=20)
    rounds_later(6)  # what happened within a second of a snapshot is in the next one as well
    before = snapshots_of(db, org, event)
    assert before[-1][1:] == (3, 2, 0, 0)
    rounds_later(2)
    assert snapshots_of(db, org, event) == before, "nothing happened"
    client.cancel(hold["hold_id"]).expect(200)
    wait_until(lambda: snapshots_of(db, org, event)[-1][1:] == (5, 0, 0, 0), timeout=20)


def test_a_missed_round_loses_no_last_state(client, admin, db, database_url, org):
    event = admin.make_event(5)
    hold = client.held(event, "A-1", "A-2")
    admin.set_event(event, status="closed")
    wait_until(lambda: (rows := snapshots_of(db, org, event)) and rows[-1][1:] == (3, 2, 0, 0), timeout=20)
    with holding(database_url, NOBODY_WRITES):
        client.cancel(hold["hold_id"]).expect(200)
        wait_until(lambda: query(db, "SELECT max(at) < clock_timestamp() - interval '3 s' FROM audit_log"
                                     " WHERE org_id = %s AND event_id = %s", org, event)[0][0], timeout=20)
        assert snapshots_of(db, org, event)[-1][1:] == (3, 2, 0, 0)
    wait_until(lambda: snapshots_of(db, org, event)[-1][1:] == (5, 0, 0, 0), timeout=20)


def without_snapshot(db, org, since):
    """The events that have none of a round that began later."""
    return [event for event, in query(db, """
        SELECT event_id FROM events e WHERE org_id = %s AND NOT EXISTS (
            SELECT FROM occupancy_snapshots s WHERE s.org_id = e.org_id AND s.event_id = e.event_id AND s.at > %s)
        ORDER BY event_id""", org, since)]


def test_an_event_that_cannot_be_counted_keeps_no_other_from_its_snapshot(admin, db, org):
    for n in range(30):  # more than fit into one transaction
        admin.make_event(1, event=f"event-{n:02}")
    refuse = f"IF NEW.org_id = '{org}' AND NEW.event_id IN ('event-12', 'event-13') THEN RAISE 'no'; END IF; RETURN NEW;"
    with trigger(db, "refuse", "occupancy_snapshots", "BEFORE INSERT", refuse):
        since = query(db, "SELECT clock_timestamp()")[0][0]
        wait_until(lambda: without_snapshot(db, org, since) == ["event-12", "event-13"], timeout=15)
    wait_until(lambda: not without_snapshot(db, org, since), timeout=20)


def test_events_that_take_too_long_together_are_written_in_smaller_portions(node, start_node, admin, db, org):
    for n in range(20):
        admin.make_event(1, event=f"event-{n:02}")
    node.stop()  # so that nobody else's round is under way
    try:
        slow = f"IF NEW.org_id = '{org}' THEN PERFORM pg_sleep(0.3); END IF; RETURN NEW;"
        with trigger(db, "slow", "occupancy_snapshots", "BEFORE INSERT", slow):
            start_node(**NODE_SETTINGS | {"occupancy_interval": "1h"}, request_timeout="3s")
            # An hour may be over meanwhile: then another round begins.
            wait_until(lambda: all(n >= 1 for n, in query(db, """
                SELECT count(s.at) FILTER (WHERE s.at = date_trunc('hour', s.at)) FROM events e
                LEFT JOIN occupancy_snapshots s USING (org_id, event_id) WHERE e.org_id = %s
                GROUP BY event_id""", org)), timeout=40)
    finally:
        node.start()


def test_several_nodes_write_each_snapshot_once(node, start_node, admin, db, database_url):
    nodes = [node] + [start_node(**NODE_SETTINGS) for _ in range(2)]
    for _ in range(45):  # more than fit into one transaction
        admin.make_event(1)

    def written():
        return sum(each.metrics()["holdfast_occupancy_snapshots_total"] for each in nodes)

    def stored():
        return query(db, "SELECT count(*) FROM occupancy_snapshots")[0][0]

    with holding(database_url, NOBODY_WRITES):
        # The last who wrote may be about to say so.
        begin = wait_until(lambda: len(told := {written() for _ in range(10)}) == 1 and told.pop())
        stood = stored()
    wait_until(lambda: written() >= begin + 200, timeout=20)
    with holding(database_url, NOBODY_WRITES):
        wait_until(lambda: written() - begin == stored() - stood, timeout=20)
    per_round = query(db, "SELECT count(*), count(DISTINCT (org_id, event_id)) FROM occupancy_snapshots GROUP BY at")
    assert all(rows == events for rows, events in per_round)


def test_snapshots_that_are_too_old_go(start_node, event, db, org):
    write(db, org, event, [1, 2])
    query(db, "INSERT INTO occupancy_snapshots (org_id, event_id, at, available, held, sold, blocked)"
              " VALUES (%s, %s, date_trunc('minute', clock_timestamp() - interval '50 minutes'), 1, 50, 0, 0) RETURNING 1",
          org, event)
    start_node(**NODE_SETTINGS | {"occupancy_retention": "1h"})
    wait_until(lambda: all(row[0] > minute(2) for row in snapshots_of(db, org, event)), timeout=30)
    assert 50 in [row[2] for row in snapshots_of(db, org, event)]
