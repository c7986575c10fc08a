"""A seat that is returned by whoever has it, held or sold: POST /flights/{event}/seats/{seat}/cancel, and what it leaves."""

import pytest

from support.cabin import cancel
from support.checkouts import complete, deliver, pending, started
from support.swarm import ask, shot
from support.sse import EventStream
from support.tables import area_row, audit, hold_lines, query, seat_locked, seat_row
from support.waiting import wait_until

NODE_SETTINGS = {"webhook_secret": "a secret between us and the provider", "request_timeout": "30s"}  # a slow machine is no fault
AREAS = [{"area_id": "floor", "name": "Floor", "capacity": 50}]


@pytest.fixture
def flight(admin):
    return admin.make_event(6, kind="flight", areas=AREAS)


def bought(client, event, *seats, **more):
    return client.confirm(client.held(event, *seats, **more)["hold_id"]).expect(200).json


def owners(db, org, event):
    """{seat: (status, user)} of those that somebody has."""
    return {row.seat_id: (row.status, row.user_id) for row in query(
        db, "SELECT seat_id, status::text, user_id FROM seats WHERE org_id = %s AND event_id = %s AND hold_id IS NOT NULL",
        org, event)}


def tickets(hold):
    return [ticket["seat_id"] for ticket in hold["tickets"]]


@pytest.mark.parametrize("sold", [False, True], ids=["held", "sold"])
def test_one_seat_of_several_leaves_the_others(client, flight, db, org, check_audit, check_verify, node, sold):
    hold = client.held(flight, "A-1", "A-2", "A-3")
    if sold:
        client.confirm(hold["hold_id"]).expect(200)
    state = "sold" if sold else "held"
    cancel(client, flight, "A-2").expect(200)
    assert owners(db, org, flight) == {"A-1": (state, client.user), "A-3": (state, client.user)}
    shown = client.get_hold(hold["hold_id"]).expect(200).json
    assert shown["status"] == ("converted" if sold else "active")
    assert [each["seat_id"] for each in shown["seats"]] == ["A-1", "A-3"]
    if sold:
        assert tickets(shown) == ["A-1", "A-3"]
        assert tickets(client.confirm(hold["hold_id"]).expect(200).json) == ["A-1", "A-3"]
        client.cancel(hold["hold_id"]).expect(409, "hold_not_active")
    for seat_id in ("A-1", "A-3"):
        cancel(client, flight, seat_id).expect(200)
    assert client.get_hold(hold["hold_id"]).expect(200).json["status"] == "cancelled"
    assert owners(db, org, flight) == {}
    check_audit(flight)
    check_verify(node, "--event", flight)


def test_a_hold_keeps_its_areas(client, flight, db, org, check_audit):
    hold = client.hold(flight, "A-1", areas=[{"area_id": "floor", "quantity": 2}]).expect(201).json
    client.confirm(hold["hold_id"]).expect(200)
    cancel(client, flight, "A-1").expect(200)
    assert area_row(db, org, flight, "floor")[1:3] == (0, 2)
    shown = client.get_hold(hold["hold_id"]).expect(200).json
    assert (shown["status"], shown["seats"], shown["areas"]) == ("converted", [], [{"area_id": "floor", "quantity": 2}])
    check_audit(flight)


def test_what_stands_in_postgres(client, flight, db, org):
    hold = bought(client, flight, "A-1")
    version = seat_row(db, org, flight, "A-1").version
    cancel(client, flight, "A-1", reason="I fly tomorrow").expect(200)
    row = seat_row(db, org, flight, "A-1")
    assert (row.status, row.version, row.hold_id, row.user_id, row.held_until) == ("available", version + 1, None, None, None)
    [line] = hold_lines(db, hold["hold_id"])
    assert (line.status, line.reason, line.notes) == ("cancelled", "user_cancelled", "I fly tomorrow")
    entry = audit(db, org, flight, "A-1")[-1]
    assert (entry.action, entry.reason, entry.hold_id, entry.user_id, entry.held_until) == (
        "seat_released", "user_cancelled", hold["hold_id"], client.user, None)


def test_a_second_time_there_is_nothing_to_return(client, other, flight, db, org):
    bought(client, flight, "A-1")
    cancel(client, flight, "A-1").expect(200)
    entries = audit(db, org, flight)
    cancel(client, flight, "A-1").expect(404, "seat_not_found")
    cancel(other, flight, "A-1").expect(404, "seat_not_found")
    assert audit(db, org, flight) == entries


def test_with_a_key_it_is_told_the_same_again(client, flight):
    bought(client, flight, "A-1")
    answers = [cancel(client, flight, "A-1", headers={"Idempotency-Key": "once"}).expect(200) for _ in range(2)]
    assert answers[0].body == answers[1].body


def test_in_payment_it_stays_until_that_is_decided(client, flight, db, org, node, check_audit):
    client.held(flight, "A-1")
    checkout = started(client, flight)
    intent = pending(client, checkout)
    cancel(client, flight, "A-1").expect(409, "payment_in_flight")
    deliver(node, intent, "succeeded", "k1").expect(200)
    assert owners(db, org, flight) == {"A-1": ("sold", client.user)}
    cancel(client, flight, "A-1").expect(200)
    assert owners(db, org, flight) == {}
    assert deliver(node, intent, "succeeded", "k1").expect(200).json["status"] == "succeeded"
    assert complete(client, checkout, "tok_ok").expect(200).json["tickets"] == []
    check_audit(flight)


@pytest.mark.parametrize("sold", [False, True], ids=["held", "sold"])
def test_while_another_transaction_has_the_seat_it_is_tried_again(
        client, flight, db, org, database_url, node, check_audit, sold):
    hold = client.held(flight, "A-1")
    if sold:
        client.confirm(hold["hold_id"]).expect(200)
    with seat_locked(database_url, org, flight, "A-1"):
        retries = node.metrics()["holdfast_retries_total"]
        wire = ask(shot(client, "POST", f"/flights/{flight}/seats/A-1/cancel", {}))
        wait_until(lambda: node.metrics()["holdfast_retries_total"] > retries, what="it tries again")
        assert wire.silent()
    assert wire.answer().expect(200).json["state"] == "AVAILABLE"
    assert owners(db, org, flight) == {}
    check_audit(flight)


def test_an_agent_returns_it_for_whoever_has_it(client, admin, flight, db, org, check_audit):
    agent = admin.as_user("agent-1", "agent")
    bought(client, flight, "A-1")
    cancel(agent, flight, "A-1", passengerId="somebody-else").expect(404, "seat_not_found")
    cancel(agent, flight, "A-1").expect(200)
    assert owners(db, org, flight) == {}
    entry = audit(db, org, flight, "A-1")[-1]
    assert (entry.actor, entry.user_id) == (agent.user, client.user)
    check_audit(flight)


def test_streams_metrics_and_occupancy(client, flight, node):
    bought(client, flight, "A-1")
    before = node.metrics()
    with EventStream(client, flight) as stream:
        stream.expect(200)
        cancel(client, flight, "A-1").expect(200)
        [event] = stream.seats(1)
    assert (event.name, event.data["seat_id"], event.data["reason"]) == ("seat_released", "A-1", "user_cancelled")
    after = node.metrics()
    name = 'holdfast_releases_total{reason="user_cancelled"}'
    assert after[name] == before[name] + 1
    wait_until(lambda: (told := client.occupancy(flight).expect(200).json)["sold"] == 0 and told["held"] == 0,
               what="the occupancy is right")


def test_the_funnel_counts_it_as_given_up(client, admin, flight):
    bought(client, flight, "A-1")
    cancel(client, flight, "A-1").expect(200)
    totals = admin.get(f"/api/events/{flight}/analytics").expect(200).json["totals"]
    assert (totals["held"], totals["sold"], totals["cancelled"]) == (1, 0, 1)
    assert totals["cancelled_by"]["user_cancelled"] == 1
