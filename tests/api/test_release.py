"""Releases: the four scenarios of seed 002, its table of edge cases row by row, and what an administrator may ask for.

Each looks at the answer, the rows in Postgres, the keys in Redis, the stream and the audit log (support/releases.py).
"""

import concurrent.futures
import contextlib
import uuid

import psycopg2
import pytest

from support.checkouts import (WEBHOOK_SECRET, await_intent, cancel, checkout_row, complete, deliver, held_checkout,
                               pending, started)
from support.client import Client, seat
from support.contract import check_problem, fields_of, seat_ids, time_of
from support.releases import SCENARIOS, USER_AGENT, Watch, held_of, hold_all, release, released, skipped
from support.tables import actions, audit, hold_lines, query, seat_locked, seat_row
from support.waiting import at_once, wait_until

# The reaper stays out of tests that want a hold which is over and not cleaned up.
NODE_SETTINGS = {"reaper_interval_ms": 600_000, "webhook_secret": WEBHOOK_SECRET}
FLOOR = {"area_id": "floor", "name": "Floor", "capacity": 100, "price": 300}


@pytest.fixture
def house(admin):
    """Ten seats at 1000 and an area."""
    return admin.make_event([seat(f"A-{n}", number=n, price=1000) for n in range(1, 11)], areas=[FLOOR])


@pytest.fixture
def watch(client, house, db, redis):
    with Watch(client, house, db, redis) as watch:
        yield watch


def floor(quantity):
    return [{"area_id": "floor", "quantity": quantity}]


def overdue(db, hold):
    """The hold is over by the database's clock, and nobody has cleaned it up: its timer is set for later."""
    for table in ("seats", "seat_holds"):
        query(db, f"UPDATE {table} SET held_until = clock_timestamp() - interval '1 second' "
              f"WHERE hold_id = %s RETURNING 1", hold["hold_id"])
    return hold


# --- the four scenarios --------------------------------------------------------------------------------------


def test_scenario_a_a_hold_expires(client, admin, db, redis, org, check_audit):
    def expires(_):
        event = admin.make_event(2, policy={"hold_ttl": 1})
        with Watch(client, event, db, redis) as watch:
            hold = client.held(event, "A-1", "A-2")
            wait_until(lambda: seat_row(db, org, event, "A-1").status == "available", timeout=15)
            watch.was_released(hold, "ttl_expired", status="expired")
            [line, _] = hold_lines(db, hold["hold_id"])
            [ended] = query(db, "SELECT min(ended_at) AS at FROM seat_holds WHERE hold_id = %s", hold["hold_id"])
        check_audit(event)
        late = (ended.at - line.held_until).total_seconds()
        assert late >= 0
        return late

    assert min(expires(n) for n in range(3)) < 1


def test_scenario_b_a_user_cancels_the_checkout(client, house, watch, db, check_audit):
    hold, checkout = held_checkout(client, house, "A-1", "A-2", areas=floor(2))
    answer = cancel(client, checkout, reason="changed my mind", notes="called at noon").expect(200)
    body = answer.json
    assert (body["status"], body["checkout_id"], body["released_count"]) == ("cancelled", checkout["checkout_id"], 4)
    assert body["message"]
    assert [(each["seat_id"], each["block"], each["row"], each["number"]) for each in body["released_seats"]] == \
        [("A-1", "main", "A", "1"), ("A-2", "main", "A", "2")]
    watch.was_released(hold, "user_cancelled", by=client.user, checked_out=1,
                       request_id=answer.headers["X-Request-Id"])
    assert held_of(db, client.org, house, "floor") == 0
    assert checkout_row(db, checkout).status == "cancelled"
    check_audit(house)


def test_scenario_c_a_payment_fails(client, house, watch, db, check_audit):
    hold, checkout = held_checkout(client, house, "A-1", "A-2", areas=floor(2))
    check_problem(complete(client, checkout, "tok_declined"), "payment_failed")
    # started, in payment, released
    watch.was_released(hold, "payment_failed", by=audit(db, client.org, house, "A-1")[-1].actor, checked_out=2)
    assert held_of(db, client.org, house, "floor") == 0
    assert checkout_row(db, checkout).status == "failed"
    check_audit(house)


def test_scenario_d_an_administrator_releases(client, other, admin, house, watch, db, check_audit):
    hold = client.hold(house, "A-1", "A-2", areas=floor(3)).expect(201).json
    answer = release(admin, hold_ids=[hold["hold_id"]], notes="called the box office")
    body = answer.expect(200).json
    assert body | {"message": ""} == {
        "status": "released", "hold_id": hold["hold_id"], "seats_released": 5, "reason": "admin_override",
        "message": "", "skipped": [], "skipped_count": 0}
    watch.was_released(hold, "admin_override", by=admin.user, notes="called the box office",
                       request_id=answer.headers["X-Request-Id"])
    assert held_of(db, client.org, house, "floor") == 0
    shown = client.get_hold(hold["hold_id"]).expect(200).json
    assert (shown["status"], shown["reason"]) == ("cancelled", "admin_override")
    other.held(house, "A-1", "A-2")
    check_audit(house)


@pytest.mark.parametrize("reason", SCENARIOS)
def test_the_audit_log_tells_who_from_where_and_why(client, admin, db, reason, check_audit):
    """What seed 002 wants of an entry, as GET /api/admin/audit tells it."""
    event = admin.make_event(1, policy={"hold_ttl": 1 if reason == "ttl_expired" else 300})
    hold = client.held(event, "A-1")
    asked = {"ttl_expired": lambda: None,
             "user_cancelled": lambda: client.delete(f"/api/holds/{hold['hold_id']}", {}, headers={"User-Agent": USER_AGENT}),
             "payment_failed": lambda: complete(client, started(client, event, [hold["hold_id"]]), "tok_declined"),
             "admin_override": lambda: release(admin, hold_ids=[hold["hold_id"]])}[reason]()
    wait_until(lambda: seat_row(db, client.org, event, "A-1").status == "available")
    entries = admin.get(f"/api/admin/audit?event_id={event}&action=seat_released").expect(200).json["entries"]
    [entry] = [each for each in entries if each["changes"]["hold_id"] == hold["hold_id"]]
    changes, metadata = entry["changes"], entry["metadata"]
    assert (entry["action"], changes["seat_id"], changes["reason"]) == ("seat_released", "A-1", reason)
    assert metadata["scenario"] == SCENARIOS[reason] or metadata["scenario"] == reason
    lived = (time_of(entry["timestamp"]) - time_of(hold["created_at"])).total_seconds()
    assert abs(changes["held_duration_seconds"] - lived) <= 1.01
    if reason in ("user_cancelled", "admin_override"):
        assert entry["actor"] == (client if reason == "user_cancelled" else admin).user
        assert (metadata["ip"], metadata["user_agent"]) == ("127.0.0.1", USER_AGENT)
        assert metadata["request_id"] == asked.headers["X-Request-Id"]
    if reason == "ttl_expired":
        assert entry["actor"] is None and not metadata.get("ip") and not metadata.get("user_agent")
    check_audit(event)


# --- the table of edge cases, row by row ---------------------------------------------------------------------


def test_row_1_a_hold_that_is_cancelled_already_is_skipped(client, other, admin, house, watch, check_audit):
    hold = client.held(house, "A-1")
    client.cancel(hold["hold_id"]).expect(200)
    watch.was_released(hold, "user_cancelled", by=client.user)
    other.held(house, "A-1")
    before = watch.state()
    for _ in range(2):
        body = released(admin, hold_ids=[hold["hold_id"]])
        assert (body["seats_released"], skipped(body)) == (0, {hold["hold_id"]: "hold_not_active"})
    assert watch.state() == before  # the next owner's hold, too
    watch.nothing_more()
    check_audit(house)


def test_row_2_a_sold_seat_is_not_released(client, admin, house, watch, check_audit):
    hold = client.held(house, "A-1", "A-2")
    sold = client.confirm(hold["hold_id"]).expect(200).json
    before = watch.state()
    assert skipped(released(admin, hold_ids=[hold["hold_id"]])) == {hold["hold_id"]: "hold_not_active"}
    body = released(admin, event_id=house, seat_ids=["A-1", "A-2"])
    assert (body["seats_released"], skipped(body)) == (0, {"A-1": "seat_sold", "A-2": "seat_sold"})
    body = released(admin, event_id=house, all=True)
    assert (body["seats_released"], body["skipped"]) == (0, [])
    assert watch.state() == before
    assert client.confirm(hold["hold_id"]).expect(200).json["tickets"] == sold["tickets"]
    watch.nothing_more()
    check_audit(house)


def test_row_3_a_free_seat_is_left_alone(client, admin, house, watch, check_audit):
    hold = client.held(house, "A-1")
    assert released(admin, event_id=house, seat_ids=["A-1"])["seats_released"] == 1
    watch.was_released(hold, "admin_override", by=admin.user)
    before = watch.state()
    body = released(admin, event_id=house, seat_ids=["A-1", "A-2"])
    assert body["seats_released"] == 0
    assert body["skipped"] == [{"hold_id": None, "seat_id": name, "reason": "available"} for name in ("A-1", "A-2")]
    assert watch.state() == before
    watch.nothing_more()
    check_audit(house)


def test_row_4_a_seat_that_another_transaction_changes_is_waited_for(client, admin, house, watch, database_url, check_audit):
    hold = client.held(house, "A-1", "A-2")
    with seat_locked(database_url, client.org, house, "A-2") as lock, concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(released, admin, hold_ids=[hold["hold_id"]])
        with pytest.raises(concurrent.futures.TimeoutError):
            asked.result(timeout=0.5)
        assert seat_row(watch.db, client.org, house, "A-1").status == "held"  # all of it or nothing
        lock.connection.rollback()
        assert asked.result()["seats_released"] == 2
    watch.was_released(hold, "admin_override", by=admin.user)
    check_audit(house)


def test_row_4_a_seat_that_stays_locked_is_skipped_and_released_the_next_time(client, other, admin, house, watch,
                                                                             database_url, check_audit):
    locked, free = client.held(house, "A-1"), other.held(house, "A-2")
    with seat_locked(database_url, client.org, house, "A-1"):
        body = released(admin, hold_ids=[locked["hold_id"], free["hold_id"]])
        assert (body["seats_released"], skipped(body)) == (1, {locked["hold_id"]: "seat_contended"})
        watch.was_released(free, "admin_override", by=admin.user)
    assert released(admin, event_id=house, all=True)["seats_released"] == 1
    watch.was_released(locked, "admin_override", by=admin.user)
    check_audit(house)


@contextlib.contextmanager
def failing(db, seat_name):
    """No audit row of this seat's release can be written."""
    name = f"refuse_{uuid.uuid4().hex[:8]}"
    query(db, f"""
        CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.seat_id = '{seat_name}' AND NEW.action = 'seat_released' THEN RAISE check_violation; END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER {name} BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION {name}();
        SELECT 1""")
    try:
        yield
    finally:
        query(db, f"DROP FUNCTION {name} CASCADE; SELECT 1")


def test_row_5_a_transaction_that_fails_changes_nothing_and_holds_up_nobody(client, admin, watch, house, db, check_audit):
    failed, fine = client.held(house, "A-1", "A-2"), client.held(house, "A-3", cart="other")
    with failing(db, "A-2"):
        before = [seat_row(db, client.org, house, name) for name in ("A-1", "A-2")]
        body = released(admin, hold_ids=[failed["hold_id"], fine["hold_id"]])
        assert (body["seats_released"], skipped(body)) == (1, {failed["hold_id"]: "internal"})
        watch.was_released(fine, "admin_override", by=admin.user)
        assert [seat_row(db, client.org, house, name) for name in ("A-1", "A-2")] == before
        assert {line.status for line in hold_lines(db, failed["hold_id"])} == {"active"}
    assert released(admin, hold_ids=[failed["hold_id"]])["seats_released"] == 2
    watch.was_released(failed, "admin_override", by=admin.user)
    check_audit(house)


def test_row_6_holds_that_are_not_there_are_skipped(client, admin, node, house, watch, check_audit):
    hold = client.held(house, "A-1")
    stranger = Client(node, "org-of-others", "admin-9", "admin")
    theirs = stranger.held(stranger.make_event(1), "A-1")["hold_id"]
    nothing = "01900000-0000-7000-8000-000000000000"
    body = released(admin, hold_ids=[nothing, theirs, hold["hold_id"]])
    assert body["seats_released"] == 1
    assert skipped(body) == {nothing: "hold_not_found", theirs: "hold_not_found"}
    watch.was_released(hold, "admin_override", by=admin.user)
    assert stranger.get_hold(theirs).json["status"] == "active"
    assert skipped(released(admin, event_id=house, seat_ids=["Z-9"])) == {"Z-9": "seat_not_found"}
    check_audit(house)


def test_row_7_while_the_database_is_away_it_says_so_and_asked_again_it_releases(own_postgres, start_node, org, own_redis):
    """Away in the middle of a release: fault/test_release_event.py."""
    node = start_node(database_url=own_postgres.url(), redis_url=own_redis.url())
    admin = Client(node, org, "admin-1", "admin")
    event = admin.make_event(3)
    holds = [admin.as_user(f"user-{n}").held(event, f"A-{n}") for n in (1, 2, 3)]
    names = [hold["hold_id"] for hold in holds]
    own_postgres.crash()
    check_problem(release(admin, hold_ids=names), "store_unavailable")
    own_postgres.start()
    answer = wait_until(lambda: (answer := release(admin, hold_ids=names)).status != 503 and answer, timeout=30)
    assert answer.expect(200).json["seats_released"] == 3, answer
    connection = psycopg2.connect(own_postgres.url())
    connection.autocommit = True
    with contextlib.closing(connection) as db:
        for hold in holds:
            [line] = hold_lines(db, hold["hold_id"])
            assert (line.status, line.reason) == ("cancelled", "admin_override")
            assert actions(db, org, event, hold["seats"][0]["seat_id"]) == ["seat_held", "seat_released"]


def test_row_8_without_redis_it_releases_all_the_same(admin, client, org, db, start_node, own_redis, check_audit):
    node = start_node(redis_url=own_redis.url())
    event = admin.at(node).make_event(2)
    with Watch(client.at(node), event, db, None) as watch:
        hold = client.at(node).held(event, "A-1", "A-2")
        watch.stream.seats(2)
        own_redis.kill()
        assert released(admin.at(node), hold_ids=[hold["hold_id"]])["seats_released"] == 2
        watch.was_released(hold, "admin_override", by=admin.user)
        own_redis.start()
    client.as_user("next").at(node).held(event, "A-1", "A-2")
    check_audit(event)


def test_row_9_a_node_that_remembers_nothing_of_the_hold_releases_it(client, other, admin, house, watch, start_node,
                                                                    check_audit):
    """There is no table to be missing: memory is a hint, and a node that has just begun has none."""
    hold = client.held(house, "A-1", "A-2")
    fresh = start_node()
    assert released(admin.at(fresh), hold_ids=[hold["hold_id"]])["seats_released"] == 2
    watch.was_released(hold, "admin_override", by=admin.user)
    wait_until(lambda: other.hold(house, "A-1", "A-2").status == 201, timeout=5)  # the node that did remember it
    check_audit(house)


def test_row_10_what_nobody_is_told_of_shows_all_the_same(admin, client, org, db, start_node, own_redis, check_audit):
    """A message to another node is lost: its memory is trusted for two seconds at most."""
    first, second = start_node(redis_url=own_redis.url()), start_node(redis_url=own_redis.url())
    event = admin.at(first).make_event(1)
    hold = client.at(second).held(event, "A-1")
    own_redis.kill()
    assert released(admin.at(first), hold_ids=[hold["hold_id"]])["seats_released"] == 1
    with Watch(client.at(first), event, db, None) as watch:
        rival = client.as_user("rival").at(second)
        wait_until(lambda: rival.hold(event, "A-1").status == 201, timeout=4)
        assert watch.stream.next(names={"seat_held"}, timeout=10).data["seat_id"] == "A-1"
    assert [line.status for line in hold_lines(db, hold["hold_id"])] == ["cancelled"]
    assert audit(db, org, event, "A-1")[1].reason == "admin_override"
    own_redis.start()
    check_audit(event)


def test_row_11_the_timer_of_a_released_hold_ends_nothing(client, other, admin, db, org, redis, check_audit):
    """Its timer still runs, and finds the next owner's hold on the seat."""
    event = admin.make_event(1, policy={"hold_ttl": 2})
    with Watch(client, event, db, redis) as watch:
        first = client.held(event, "A-1")
        assert released(admin, hold_ids=[first["hold_id"]])["seats_released"] == 1
        watch.was_released(first, "admin_override", by=admin.user)
        admin.set_event(event, policy={"hold_ttl": 300})
        second = other.held(event, "A-1")
        [line] = hold_lines(db, first["hold_id"])
        wait_until(lambda: query(db, "SELECT clock_timestamp() > %s + interval '300 ms' AS past", line.held_until)[0].past)
        assert seat_row(db, org, event, "A-1").hold_id == second["hold_id"]
        assert hold_lines(db, first["hold_id"]) == [line]
    assert actions(db, org, event, "A-1") == ["seat_held", "seat_released", "seat_held"]
    check_audit(event)


def test_row_11_expiry_and_release_in_the_same_instant_are_one_release(client, admin, db, org, check_audit):
    event = admin.make_event(20, policy={"hold_ttl": 1})
    holds = [client.as_user(f"user-{n}").held(event, f"A-{n}") for n in range(1, 21)]
    end = max(time_of(hold["expires_at"]) for hold in holds)
    wait_until(lambda: query(db, "SELECT clock_timestamp() >= %s::timestamptz - interval '30 ms' AS due", end)[0].due,
               every=0.001)
    answers = at_once(4, lambda n: released(admin, hold_ids=[hold["hold_id"] for hold in holds[5 * n:5 * n + 5]]))
    wait_until(lambda: not query(db, "SELECT 1 FROM seats WHERE org_id = %s AND event_id = %s AND status = 'held'", org, event))
    assert {reason for body in answers for reason in skipped(body).values()} <= {"hold_expired"}
    entries = [entry for entry in audit(db, org, event) if entry.action == "seat_released"]
    assert sorted(entry.seat_id for entry in entries) == sorted(f"A-{n}" for n in range(1, 21))
    by_admin = [entry for entry in entries if entry.reason == "admin_override"]
    assert len(by_admin) == sum(body["seats_released"] for body in answers)
    assert {entry.reason for entry in entries} <= {"admin_override", "ttl_expired"}
    check_audit(event)


def test_row_12_what_is_paid_for_is_not_released(client, admin, house, watch, db, check_audit):
    hold, checkout = held_checkout(client, house, "A-1", "A-2")
    sold = complete(client, checkout, "tok_ok").expect(200).json
    assert len(sold["tickets"]) == 2
    before = watch.state()
    assert skipped(released(admin, hold_ids=[hold["hold_id"]])) == {hold["hold_id"]: "hold_not_active"}
    assert skipped(released(admin, event_id=house, seat_ids=["A-1"])) == {"A-1": "seat_sold"}
    assert released(admin, event_id=house, all=True)["seats_released"] == 0
    check_problem(client.cancel(hold["hold_id"]), "hold_not_active")
    check_problem(cancel(client, checkout), "hold_not_active")
    assert watch.state()[:4] == before[:4]
    assert seat_row(db, client.org, house, "A-1").status == "sold"
    check_audit(house)


def test_row_13_a_payment_in_flight_is_waited_for(client, other, admin, node, house, watch, db, check_audit):
    hold, checkout = held_checkout(client, house, "A-1", "A-2", areas=floor(1))
    free = other.held(house, "A-3")
    intent = pending(client, checkout)
    before = [seat_row(db, client.org, house, name) for name in ("A-1", "A-2")]
    assert skipped(released(admin, hold_ids=[hold["hold_id"]])) == {hold["hold_id"]: "payment_in_flight"}
    assert skipped(released(admin, event_id=house, seat_ids=["A-1"])) == {"A-1": "payment_in_flight"}
    body = released(admin, event_id=house, all=True)
    assert (body["seats_released"], skipped(body)) == (1, {hold["hold_id"]: "payment_in_flight"})
    watch.was_released(free, "admin_override", by=admin.user)
    assert [seat_row(db, client.org, house, name) for name in ("A-1", "A-2")] == before
    assert held_of(db, client.org, house, "floor") == 1
    check_problem(cancel(client, checkout), "payment_in_flight")
    # It is resolved, and then nothing is left to be released.
    deliver(node, intent, "failed", "key-1").expect(200)
    await_intent(db, intent, "failed")
    actor = audit(db, client.org, house, "A-1")[-1].actor
    watch.was_released(hold, "payment_failed", by=actor, checked_out=2)
    assert skipped(released(admin, hold_ids=[hold["hold_id"]])) == {hold["hold_id"]: "hold_not_active"}
    check_audit(house)


# --- what may be asked for -----------------------------------------------------------------------------------


def test_holds_of_several_events_by_name(client, other, admin, house, watch, check_audit):
    elsewhere = admin.make_event(2)
    holds = [client.held(house, "A-1", "A-2"), other.held(house, "A-3"), other.held(elsewhere, "A-1")]
    body = released(admin, hold_ids=[hold["hold_id"] for hold in holds])
    assert (body["seats_released"], body["skipped"]) == (4, [])
    for hold in holds[:2]:
        watch.was_released(hold, "admin_override", by=admin.user)
    for event in (house, elsewhere):
        check_audit(event)


def test_seats_by_name_leave_the_rest_of_their_holds(client, other, admin, house, watch, db, check_audit):
    mine = client.hold(house, "A-1", "A-2", "A-3", areas=floor(2)).expect(201).json
    theirs = other.held(house, "A-5")
    body = released(admin, event_id=house, seat_ids=["A-5", "A-1", "A-3", "A-7"], notes="a broken row")
    assert (body["seats_released"], skipped(body)) == (3, {"A-7": "available"})
    watch.was_released(mine, "admin_override", by=admin.user, seats=["A-1", "A-3"])
    watch.was_released(theirs, "admin_override", by=admin.user, notes="a broken row")
    left = client.get_hold(mine["hold_id"]).json
    assert (left["status"], seat_ids(left), held_of(db, client.org, house, "floor")) == ("active", ["A-2"], 2)
    assert left["expires_at"] == mine["expires_at"]
    client.confirm(mine["hold_id"]).expect(200)
    check_audit(house)


def test_all_that_is_held_of_an_event(client, other, admin, house, watch, db, check_audit):
    holds = [client.hold(house, "A-1", areas=floor(4)).expect(201).json, other.held(house, "A-2", "A-3"),
             client.hold(house, areas=floor(5), cart="areas alone").expect(201).json]
    sold = client.held(house, "A-9", cart="sold")["hold_id"]
    client.confirm(sold).expect(200)
    elsewhere = client.held(admin.make_event(1), "A-1", cart="elsewhere")
    body = released(admin, event_id=house, all=True, notes="the hall is closed")
    assert (body["seats_released"], body["skipped"]) == (12, [])
    for hold in holds:
        watch.was_released(hold, "admin_override", by=admin.user, notes="the hall is closed")
    assert held_of(db, client.org, house, "floor") == 0
    assert seat_row(db, client.org, house, "A-9").status == "sold"
    assert client.get_hold(elsewhere["hold_id"]).json["status"] == "active"
    again = released(admin, event_id=house, all=True)
    assert (again["seats_released"], again["skipped"]) == (0, [])
    check_audit(house)


def test_more_holds_than_one_page(client, admin, db, org, node, check_audit):
    """Pages, progress and the window of what is under way."""
    event = admin.make_event(0, areas=[{"area_id": "field", "name": "Field", "capacity": 10_000}])
    seats = [seat(f"F-{n}", number=n) for n in range(1, 5_001)]
    admin.make_event(seats, event=event)
    hold_all(db, org, event)
    body = released(admin, event_id=event, all=True)
    assert (body["seats_released"], body["skipped"]) == (5_000, [])

    def told():
        return [line for line in node.log_lines() if line.get("event_id") == event and "holds_released" in line]

    wait_until(lambda: any(line["event"] == "released" for line in told()))
    lines = told()
    progress = [line["decided"] for line in lines if line["event"] == "release_progress"]
    assert len(progress) == 5 and progress == sorted(progress) and {line["of"] for line in lines} == {5_000}
    assert lines[-1]["event"] == "released" and lines[-1]["holds_released"] == 5_000
    assert {line["skipped"] for line in lines} == {0}
    check_audit(event)


def test_what_is_over_ends_as_expired(client, other, admin, house, watch, db, check_audit):
    """As DELETE of such a hold: it is free then, but it wasn't the administrator who took it away."""
    by_name, by_seat, by_event = (overdue(db, client.held(house, f"A-{n}", cart=f"cart-{n}")) for n in (1, 2, 3))
    assert skipped(released(admin, hold_ids=[by_name["hold_id"]])) == {by_name["hold_id"]: "hold_expired"}
    watch.was_released(by_name, "ttl_expired", status="expired")
    assert skipped(released(admin, event_id=house, seat_ids=["A-2"])) == {"A-2": "hold_expired"}
    watch.was_released(by_seat, "ttl_expired", status="expired")
    body = released(admin, event_id=house, all=True)
    assert (body["seats_released"], skipped(body)) == (0, {by_event["hold_id"]: "hold_expired"})
    watch.was_released(by_event, "ttl_expired", status="expired")
    other.held(house, "A-1", "A-2", "A-3")


def test_a_hold_named_twice_is_released_once(client, admin, house, watch, check_audit):
    hold = client.held(house, "A-1")
    body = release(admin, hold_ids=[hold["hold_id"]] * 2).expect(200).json
    assert (body["seats_released"], skipped(body)) == (1, {hold["hold_id"]: "hold_not_active"})
    watch.was_released(hold, "admin_override", by=admin.user)
    check_audit(house)


def test_two_administrators_at_once_release_each_hold_once(client, admin, db, org, check_audit):
    event = admin.make_event(200)
    hold_all(db, org, event)
    answers = at_once(4, lambda _: released(admin, event_id=event, all=True))
    assert sum(body["seats_released"] for body in answers) == 200
    assert {reason for body in answers for reason in skipped(body).values()} <= {"hold_not_active"}
    check_audit(event)


def test_release_and_sale_at_once_end_in_one_of_both(admin, db, org, check_audit):
    event = admin.make_event(40)
    users = [admin.as_user(f"user-{n}") for n in range(40)]
    holds = [user.held(event, f"A-{n + 1}") for n, user in enumerate(users)]

    def act(turn):
        if turn == 40:
            return released(admin, event_id=event, all=True)
        return users[turn].confirm(holds[turn]["hold_id"])

    *sales, body = at_once(41, act)
    bought = {f"A-{n + 1}" for n, answer in enumerate(sales) if answer.status == 200}
    assert {answer.code for answer in sales if answer.status != 200} <= {"hold_not_active"}
    assert {row.seat_id for row in query(db, "SELECT seat_id FROM seats WHERE org_id = %s AND event_id = %s "
                                         "AND status = 'sold'", org, event)} == bought
    assert body["seats_released"] == 40 - len(bought)
    check_audit(event)


@pytest.mark.parametrize("body, code, fields", [
    ({}, "missing_field", {"hold_ids"}),
    ({"notes": "x"}, "missing_field", {"hold_ids"}),
    ({"hold_ids": None}, "missing_field", {"hold_ids"}),
    ({"event_id": "e"}, "missing_field", {"seat_ids"}),
    ({"seat_ids": ["A-1"]}, "missing_field", {"event_id"}),
    ({"all": True}, "missing_field", {"event_id"}),
    ({"hold_ids": ["H"], "event_id": "e"}, "invalid_field", {"event_id"}),
    ({"hold_ids": ["H"], "event_id": "e", "seat_ids": ["A-1"]}, "invalid_field", {"event_id", "seat_ids"}),
    ({"hold_ids": ["H"], "all": True}, "invalid_field", {"all"}),
    ({"event_id": "e", "seat_ids": ["A-1"], "all": True}, "invalid_field", {"all"}),
    ({"event_id": "e", "all": False}, "invalid_field", {"all"}),
    ({"event_id": "e", "all": "yes"}, "invalid_field", {"all"}),
    ({"event_id": 7, "all": True}, "invalid_field", {"event_id"}),
    ({"event_id": "e e", "all": True}, "invalid_id", {"event_id"}),
    ({"event_id": "e", "seat_ids": []}, "invalid_field", {"seat_ids"}),
    ({"event_id": "e", "seat_ids": "A-1"}, "invalid_field", {"seat_ids"}),
    ({"event_id": "e", "seat_ids": [7]}, "invalid_field", {"seat_ids"}),
    ({"event_id": "e", "seat_ids": ["A 1"]}, "invalid_id", {"seat_ids"}),
    ({"hold_ids": []}, "invalid_field", {"hold_ids"}),
    ({"hold_ids": "H"}, "invalid_field", {"hold_ids"}),
    ({"hold_ids": [7]}, "invalid_field", {"hold_ids"}),
    ({"hold_ids": ["not one"]}, "invalid_field", {"hold_ids"}),
    ({"hold_ids": ["01900000-0000-7000-8000-000000000000"] * 10_001}, "invalid_field", {"hold_ids"}),
    ({"hold_ids": ["01900000-0000-7000-8000-000000000000"], "notes": 7}, "invalid_field", {"notes"}),
    ({"hold_ids": ["01900000-0000-7000-8000-000000000000"], "notes": "x" * 2001}, "invalid_field", {"notes"}),
])
def test_bodies_that_are_wrong(admin, body, code, fields):
    problem = check_problem(admin.post("/api/admin/seats/release", body), code)
    assert fields_of(problem) == fields


def test_a_seat_named_twice_is_named(admin, house):
    problem = check_problem(release(admin, event_id=house, seat_ids=["A-1", "A-2", "A-1"]), "duplicate_seat")
    assert problem["seats"] == [{"seat_id": "A-1", "code": "duplicate_seat"}]


def test_an_event_that_is_not_there(admin, node, house):
    for what in ({"all": True}, {"seat_ids": ["A-1"]}):
        check_problem(release(admin, event_id="nowhere", **what), "event_not_found")
        stranger = Client(node, "org-of-others", "admin-9", "admin")
        check_problem(release(stranger, event_id=house, **what), "event_not_found")


@pytest.mark.parametrize("role", ["user", "agent", "service"])
def test_only_administrators_may(client, house, role):
    hold = client.held(house, "A-1")
    asker = client.as_user("somebody", role)
    check_problem(release(asker, hold_ids=[hold["hold_id"]]), "forbidden")
    assert client.get_hold(hold["hold_id"]).json["status"] == "active"


def test_with_a_key_the_same_request_gets_the_same_answer(client, other, admin, house):
    hold = client.held(house, "A-1")
    key = {"Idempotency-Key": "release-1"}
    first = admin.post("/api/admin/seats/release", {"event_id": house, "all": True}, headers=key).expect(200)
    later = other.held(house, "A-1")
    again = admin.post("/api/admin/seats/release", {"event_id": house, "all": True}, headers=key).expect(200)
    assert again.json == first.json and first.json["seats_released"] == 1
    assert client.get_hold(hold["hold_id"]).json["status"] == "cancelled"
    assert other.get_hold(later["hold_id"]).json["status"] == "active"  # it isn't done twice
    check_problem(admin.post("/api/admin/seats/release", {"hold_ids": [hold["hold_id"]]}, headers=key),
                  "idempotency_key_reused")


def test_an_event_that_is_cancelled_can_be_emptied(client, admin, house, watch, check_audit):
    hold = client.held(house, "A-1")
    admin.set_event(house, status="cancelled")
    assert released(admin, event_id=house, all=True)["seats_released"] == 1
    watch.was_released(hold, "admin_override", by=admin.user)
    check_audit(house)


def counted(node):
    metrics = node.metrics()
    return {reason: (metrics[f'holdfast_releases_total{{reason="{reason}"}}'],
                     metrics[f'holdfast_held_until_release_count{{reason="{reason}"}}'],
                     metrics[f'holdfast_release_failures_total{{reason="{reason}"}}']) for reason in SCENARIOS}


def test_releases_are_counted_by_their_reason(client, admin, node, house):
    before = counted(node)
    client.cancel(client.held(house, "A-1")["hold_id"]).expect(200)
    released(admin, hold_ids=[client.held(house, f"A-{n}", cart=f"cart-{n}")["hold_id"] for n in (2, 3)])
    complete(client, held_checkout(client, house, "A-4")[1], "tok_declined").expect(402)
    cancel(client, held_checkout(client, house, "A-5")[1]).expect(200)
    wait_until(lambda: {reason: after[0] - before[reason][0] for reason, after in counted(node).items()} ==
               {"ttl_expired": 0, "user_cancelled": 2, "payment_failed": 1, "admin_override": 2})
    for reason, (done, held, failed) in counted(node).items():
        assert done - before[reason][0] == held - before[reason][1]
        assert failed == before[reason][2]


def test_what_a_checkout_no_longer_had_is_not_counted_with_it(client, other, admin, node, db, house):
    """A hold that was cancelled before, one that went into a newer checkout, and a refund of what was freed before."""
    holds = [client.held(house, f"A-{n}", cart=f"cart-{n}")["hold_id"] for n in (1, 2, 3)]
    older = started(client, house, holds)
    started(client, house, holds[1:2])
    client.cancel(holds[2]).expect(200)
    before = counted(node)
    cancel(client, older).expect(200)
    intent = pending(client, held_checkout(client, house, "A-4", cart="cart-4")[1])
    deliver(node, intent, "failed", "first").expect(200)
    other.held(house, "A-4")
    assert deliver(node, intent, "succeeded", "late").expect(200).json["status"] == "refund_required"

    def done():
        return {reason: after[0] - before[reason][0] for reason, after in counted(node).items()}

    wait_until(lambda: sum(done().values()) >= 2)
    assert done() == {"ttl_expired": 0, "user_cancelled": 1, "payment_failed": 1, "admin_override": 0}
