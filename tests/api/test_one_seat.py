"""Policy one_seat_per_user: what a user buys takes the place of all that they had bought before."""

import pytest

from support.checkouts import await_intent, complete, deliver, held_checkout, pending, started
from support.receiver import Receiver, put_webhook
from support.sse import EventStream
from support.swarm import ask, shot
from support.tables import area_row, audit, hold_lines, query, seat_locked, seat_row
from support.waiting import wait_until

NODE_SETTINGS = {"webhook_secret": "a secret between us and the provider", "delivery_allow_private": "on",
                 "request_timeout": "30s"}  # a slow machine is no fault
AREAS = [{"area_id": "floor", "name": "Floor", "capacity": 50}]


@pytest.fixture
def flight(admin):
    return admin.make_event(6, kind="flight")


def bought(client, event, *seats, **more):
    """A hold that was confirmed, as its answer told of it."""
    return client.confirm(client.held(event, *seats, **more)["hold_id"]).expect(200).json


def owners(db, org, event):
    """{seat: (status, user)} of those that somebody has."""
    return {row.seat_id: (row.status, row.user_id) for row in query(
        db, "SELECT seat_id, status::text, user_id FROM seats WHERE org_id = %s AND event_id = %s AND hold_id IS NOT NULL",
        org, event)}


def test_a_confirm_gives_back_what_was_confirmed_before(client, flight, db, org, check_audit, check_verify, node):
    first = bought(client, flight, "A-1")
    before = seat_row(db, org, flight, "A-1")
    second = bought(client, flight, "A-2")
    assert [each["seat_id"] for each in second["seats"]] == ["A-2"] and len(second["tickets"]) == 1
    assert owners(db, org, flight) == {"A-2": ("sold", client.user)}
    freed = seat_row(db, org, flight, "A-1")
    assert (freed.status, freed.version, freed.hold_id, freed.user_id) == ("available", before.version + 1, None, None)
    [line] = hold_lines(db, first["hold_id"])
    assert (line.status, line.reason) == ("cancelled", "replaced")
    check_audit(flight)
    check_verify(node, "--event", flight)


def test_a_held_seat_changes_nothing_about_the_confirmed_one(client, flight, db, org):
    bought(client, flight, "A-1")
    client.held(flight, "A-2")
    assert owners(db, org, flight) == {"A-1": ("sold", client.user), "A-2": ("held", client.user)}
    client.held(flight, "A-3")
    assert owners(db, org, flight) == {"A-1": ("sold", client.user), "A-3": ("held", client.user)}


def test_a_hold_that_is_given_up_leaves_the_confirmed_seat(client, flight, db, org):
    bought(client, flight, "A-1")
    client.cancel(client.held(flight, "A-2")["hold_id"]).expect(200)
    assert owners(db, org, flight) == {"A-1": ("sold", client.user)}


def test_confirmed_again_it_is_the_same_and_gives_nothing_back(client, flight, db, org, check_audit):
    hold = bought(client, flight, "A-1")
    entries = audit(db, org, flight)
    again = client.confirm(hold["hold_id"]).expect(200).json
    assert again["tickets"] == hold["tickets"]
    assert audit(db, org, flight) == entries
    check_audit(flight)


def test_what_was_given_back_is_shown_as_cancelled_and_has_no_tickets(client, flight):
    first = bought(client, flight, "A-1")
    bought(client, flight, "A-2")
    shown = client.get_hold(first["hold_id"]).expect(200).json
    assert (shown["status"], shown["reason"]) == ("cancelled", "replaced")
    assert [each["seat_id"] for each in shown["seats"]] == ["A-1"] and "tickets" not in shown
    client.confirm(first["hold_id"]).expect(409, "hold_not_active")
    client.extend(first["hold_id"]).expect(409, "hold_not_active")
    assert client.cancel(first["hold_id"]).expect(200).json["status"] == "cancelled"


def test_the_seat_is_free_for_others_at_once(client, other, flight, db, org, check_audit):
    bought(client, flight, "A-1")
    other.hold(flight, "A-1").expect(409, "seat_sold")
    bought(client, flight, "A-2")
    assert other.seat_status(flight, "A-1") == "available"
    bought(other, flight, "A-1")
    assert owners(db, org, flight) == {"A-1": ("sold", other.user), "A-2": ("sold", client.user)}
    check_audit(flight)


def test_other_users_and_other_events_keep_theirs(client, other, admin, flight, db, org):
    elsewhere = admin.make_event(3, kind="flight")
    bought(client, elsewhere, "A-1")
    bought(other, flight, "A-1")
    bought(client, flight, "A-2")
    bought(client, flight, "A-3")
    assert owners(db, org, flight) == {"A-1": ("sold", other.user), "A-3": ("sold", client.user)}
    assert owners(db, org, elsewhere) == {"A-1": ("sold", client.user)}


def test_it_is_the_holds_owner_whose_seat_is_given_back_not_the_agents(client, admin, flight, db, org, check_audit):
    agent = admin.as_user("agent-1", "agent")
    bought(agent, flight, "A-1")
    bought(client, flight, "A-2")
    agent.confirm(client.held(flight, "A-3")["hold_id"]).expect(200)
    assert owners(db, org, flight) == {"A-1": ("sold", agent.user), "A-3": ("sold", client.user)}
    check_audit(flight)


def test_a_transferred_hold_takes_the_place_of_what_its_new_owner_had(client, other, flight, db, org, check_audit):
    bought(client, flight, "A-1")
    bought(other, flight, "A-2")
    hold = client.held(flight, "A-3")["hold_id"]
    client.post(f"/api/holds/{hold}/transfer", {"to_user_id": other.user}).expect(200)
    other.confirm(hold).expect(200)
    assert owners(db, org, flight) == {"A-1": ("sold", client.user), "A-3": ("sold", other.user)}
    check_audit(flight)


def test_without_the_policy_everything_is_kept(client, admin, db, org):
    event = admin.make_event(3)
    bought(client, event, "A-1", cart="c1")
    bought(client, event, "A-2", cart="c2")
    assert owners(db, org, event) == {seat_id: ("sold", client.user) for seat_id in ("A-1", "A-2")}


def test_the_policy_counts_from_when_it_is_set(client, admin, db, org, check_audit):
    event = admin.make_event(5)
    for n in (1, 2):
        bought(client, event, f"A-{n}", cart=f"c{n}")
    admin.set_event(event, policy={"one_seat_per_user": True})
    bought(client, event, "A-3", cart="c3")
    assert owners(db, org, event) == {"A-3": ("sold", client.user)}
    admin.set_event(event, policy={"one_seat_per_user": False})
    bought(client, event, "A-4", cart="c4")
    assert owners(db, org, event) == {seat_id: ("sold", client.user) for seat_id in ("A-3", "A-4")}
    check_audit(event)


@pytest.mark.parametrize("kind", ["flight", "event"])
def test_an_event_put_by_a_node_that_doesn_t_know_the_policy_has_it_by_its_kind(client, admin, db, org, kind):
    event = admin.make_event(3, kind="event" if kind == "flight" else "flight", policy={"max_seats_per_user": 1})
    with db.cursor() as cursor:  # as put_event of the version before, which is told to others by nobody
        cursor.execute("UPDATE events SET kind = %s, one_seat_per_user = NULL, one_hold_per_user = false, "
                       "version = version + 1 WHERE org_id = %s AND event_id = %s", (kind, org, event))
    is_flight = kind == "flight"
    assert admin.get(f"/api/events/{event}").expect(200).json["policy"]["one_seat_per_user"] is is_flight
    [listed] = [each for each in admin.get("/api/events").expect(200).json["events"] if each["event_id"] == event]
    assert listed["policy"]["one_seat_per_user"] is is_flight
    bought(client, event, "A-1", cart="c1")
    answer = client.hold(event, "A-2", cart="c2")
    if is_flight:
        client.confirm(answer.expect(201).json["hold_id"]).expect(200)
    else:
        answer.expect(422, "user_limit")
    assert owners(db, org, event) == {"A-2" if is_flight else "A-1": ("sold", client.user)}


def test_a_hold_of_several_seats_takes_the_place_of_one_of_several(client, flight, db, org, check_audit):
    bought(client, flight, "A-1", "A-2")
    bought(client, flight, "A-3", "A-4")
    assert owners(db, org, flight) == {seat_id: ("sold", client.user) for seat_id in ("A-3", "A-4")}
    check_audit(flight)


def test_what_will_be_given_back_stands_in_the_way_of_no_limit(client, admin, db, org, check_audit):
    event = admin.make_event(4, kind="flight", policy={"max_seats_per_user": 1}, areas=AREAS)
    for n in (1, 2, 3):
        bought(client, event, f"A-{n}")
    client.hold(event, areas=[{"area_id": "floor", "quantity": 2}]).expect(422, "user_limit")
    client.hold(event, "A-1", "A-2").expect(422, "user_limit")
    client.hold(event, areas=[{"area_id": "floor", "quantity": 1}]).expect(201)
    assert owners(db, org, event) == {"A-3": ("sold", client.user)}
    check_audit(event)


def test_the_limit_of_who_gets_a_hold_by_transfer_leaves_out_what_will_be_given_back(client, other, admin, db, org):
    event = admin.make_event(4, kind="flight", policy={"max_seats_per_user": 1})
    bought(other, event, "A-1")
    hold = client.held(event, "A-2")["hold_id"]
    client.post(f"/api/holds/{hold}/transfer", {"to_user_id": other.user}).expect(200)
    other.confirm(hold).expect(200)
    assert owners(db, org, event) == {"A-2": ("sold", other.user)}


# --- areas ---------------------------------------------------------------------------------------------------


def test_quantities_of_areas_are_given_back_too(client, admin, db, org, check_audit, check_verify, node):
    event = admin.make_event(4, kind="flight", areas=AREAS)
    first = client.hold(event, "A-1", areas=[{"area_id": "floor", "quantity": 2}]).expect(201).json
    client.confirm(first["hold_id"]).expect(200)
    assert area_row(db, org, event, "floor")[1:3] == (0, 2)
    second = client.hold(event, areas=[{"area_id": "floor", "quantity": 3}]).expect(201).json
    client.confirm(second["hold_id"]).expect(200)
    assert area_row(db, org, event, "floor")[1:3] == (0, 3)
    assert owners(db, org, event) == {}
    bought(client, event, "A-2")
    assert area_row(db, org, event, "floor")[1:3] == (0, 0)
    wait_until(lambda: (told := client.occupancy(event).expect(200).json)["sold"] == 1 and told["held"] == 0,
               what="the occupancy is right")
    check_audit(event)
    check_verify(node, "--event", event)


# --- payments ------------------------------------------------------------------------------------------------


def test_a_payment_gives_back_what_was_confirmed_before(client, flight, db, org, check_audit, check_verify, node):
    bought(client, flight, "A-1")
    client.held(flight, "A-2")
    checkout = started(client, flight)
    assert owners(db, org, flight) == {"A-1": ("sold", client.user), "A-2": ("held", client.user)}
    sale = complete(client, checkout, "tok_ok").expect(200).json
    assert [ticket["seat_id"] for ticket in sale["tickets"]] == ["A-2"]
    assert owners(db, org, flight) == {"A-2": ("sold", client.user)}
    check_audit(flight)
    check_verify(node, "--event", flight)


def test_a_payment_that_fails_leaves_the_confirmed_seat(client, flight, db, org, check_audit):
    bought(client, flight, "A-1")
    client.held(flight, "A-2")
    complete(client, started(client, flight), "tok_declined").expect(402)
    assert owners(db, org, flight) == {"A-1": ("sold", client.user)}
    check_audit(flight)


def test_all_holds_of_one_payment_are_kept(client, admin, db, org, check_audit):
    event = admin.make_event(6, policy={"one_seat_per_user": True})
    bought(client, event, "A-1", cart="c1")
    holds = [client.held(event, f"A-{n}", cart=f"c{n}")["hold_id"] for n in (2, 3)]
    complete(client, started(client, event, holds), "tok_ok").expect(200)
    assert owners(db, org, event) == {seat_id: ("sold", client.user) for seat_id in ("A-2", "A-3")}
    check_audit(event)


def test_a_payment_that_succeeds_late_gives_back_what_was_confirmed_meanwhile(client, flight, db, org, node, check_audit):
    _, checkout = held_checkout(client, flight, "A-1")
    intent = pending(client, checkout)
    deliver(node, intent, "failed", "k1").expect(200)
    bought(client, flight, "A-2")
    assert deliver(node, intent, "succeeded", "k2").expect(200).json["status"] == "succeeded"
    await_intent(db, intent, "succeeded")
    assert owners(db, org, flight) == {"A-1": ("sold", client.user)}
    check_audit(flight)


def test_a_late_payment_for_what_another_has_gives_nothing_back(client, other, flight, db, org, node, check_audit):
    _, checkout = held_checkout(client, flight, "A-1")
    intent = pending(client, checkout)
    deliver(node, intent, "failed", "k1").expect(200)
    bought(client, flight, "A-2")
    other.held(flight, "A-1")
    assert deliver(node, intent, "succeeded", "k2").expect(200).json["status"] == "refund_required"
    assert owners(db, org, flight) == {"A-1": ("held", other.user), "A-2": ("sold", client.user)}
    check_audit(flight)


def test_a_paid_checkout_whose_seat_was_given_back_stays_completed_without_tickets(client, flight):
    client.held(flight, "A-1")
    checkout = started(client, flight)
    complete(client, checkout, "tok_ok").expect(200)
    bought(client, flight, "A-2")
    shown = client.get(f"/api/checkouts/{checkout['checkout_id']}").expect(200).json
    assert (shown["status"], shown["tickets"]) == ("completed", [])
    assert [hold["status"] for hold in shown["holds"]] == ["cancelled"]


# --- who is told ---------------------------------------------------------------------------------------------


def test_streams_and_maps_are_told(client, other, flight):
    bought(client, flight, "A-1")
    hold = client.held(flight, "A-2")["hold_id"]
    with EventStream(other, flight) as stream:
        stream.expect(200)
        client.confirm(hold).expect(200)
        events = stream.seats(2)
    assert {(event.name, event.data["seat_id"], event.data.get("reason")) for event in events} == {
        ("seat_sold", "A-2", None), ("seat_released", "A-1", "replaced")}
    told = {each["seat_id"]: each["status"] for each in other.seats(flight).expect(200).json["seats"]}
    assert (told["A-1"], told["A-2"]) == ("available", "sold")


def test_webhooks_are_told_in_order(client, admin, flight):
    with Receiver() as receiver:
        put_webhook(admin, receiver).expect(201)
        bought(client, flight, "A-1")
        bought(client, flight, "A-2")
        told = receiver.await_events(lambda events: len(events) == 5 and events)
    assert [(each["kind"], each["data"]["seat_id"], each["data"].get("reason")) for each in told] == [
        ("seat.held", "A-1", None), ("seat.sold", "A-1", None), ("seat.held", "A-2", None), ("seat.sold", "A-2", None),
        ("seat.released", "A-1", "replaced")]


def test_the_audit_log_tells_who_and_why(client, admin, flight):
    first = bought(client, flight, "A-1")
    bought(client, flight, "A-2")
    entries = admin.get("/api/admin/audit", {"hold_id": first["hold_id"]}).expect(200).json["entries"]
    [release] = [entry for entry in entries if entry["action"] == "seat_released"]
    changes = release["changes"]
    assert (changes["previous_status"], changes["new_status"], changes["reason"]) == ("converted", "cancelled", "replaced")
    assert release["actor"] == client.user and changes["user_id"] == client.user


def test_the_funnel_counts_it_as_cancelled(client, admin, flight):
    bought(client, flight, "A-1")
    bought(client, flight, "A-2")
    totals = admin.get(f"/api/events/{flight}/analytics").expect(200).json["totals"]
    assert (totals["held"], totals["sold"], totals["cancelled"]) == (2, 1, 1)
    assert totals["cancelled_by"]["other"] == 1


def test_the_occupancy_is_right(client, flight, node, start_node):
    other_node = start_node(**NODE_SETTINGS)
    bought(client, flight, "A-1")
    bought(client, flight, "A-2")

    def counts(at):
        told = client.at(at).occupancy(flight).expect(200).json
        return told["available"], told["held"], told["sold"]

    for each in (node, other_node):
        wait_until(lambda: counts(each) == (5, 0, 1), timeout=10, what=f"{each.node_id} has counted it")


# --- locked --------------------------------------------------------------------------------------------------


def test_nothing_happens_while_the_old_seat_is_locked_and_then_all_of_it(
        client, flight, db, org, database_url, check_audit, node):
    bought(client, flight, "A-1")
    hold = client.held(flight, "A-2")["hold_id"]
    with seat_locked(database_url, org, flight, "A-1"):
        retries = node.metrics()["holdfast_retries_total"]
        wire = ask(shot(client, "POST", f"/api/holds/{hold}/confirm", {}))
        wait_until(lambda: node.metrics()["holdfast_retries_total"] > retries, what="it tries again")
        assert wire.silent()
        assert owners(db, org, flight) == {"A-1": ("sold", client.user), "A-2": ("held", client.user)}
    assert wire.answer().expect(200).json["status"] == "converted"
    assert owners(db, org, flight) == {"A-2": ("sold", client.user)}
    check_audit(flight)


def test_a_key_tells_the_same_again(client, flight, db, org):
    bought(client, flight, "A-1")
    hold = client.held(flight, "A-2")["hold_id"]
    answers = [client.post(f"/api/holds/{hold}/confirm", {}, headers={"Idempotency-Key": "once"}).expect(200)
               for _ in range(2)]
    assert answers[0].body == answers[1].body
    assert owners(db, org, flight) == {"A-2": ("sold", client.user)}


def test_a_confirm_that_is_refused_gives_nothing_back(client, other, flight, db, org):
    bought(client, flight, "A-1")
    hold = client.held(flight, "A-2")
    client.confirm(hold["hold_id"], version={"A-2": 99}).expect(409, "version_conflict")
    other.confirm(hold["hold_id"]).expect(404, "hold_not_found")  # as flights say it
    assert owners(db, org, flight) == {"A-1": ("sold", client.user), "A-2": ("held", client.user)}
