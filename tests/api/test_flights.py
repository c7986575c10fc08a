"""Flights in the words of seed 003: the map, and seats held, confirmed and given up."""

import gzip
import uuid

import pytest

from support.cabin import cabin, cancel, confirm, confirmed, held, hold, make_flight, own, seatmap, states
from support.contract import UUID_V7, check_problem, fields_of, time_of
from support.tables import query
from support.waiting import wait_until

NODE_SETTINGS = {"request_timeout": "30s"}  # a slow machine is no fault
NEVER = "0190a000-0000-7000-8000-000000000000"


@pytest.fixture(name="flight")
def fixture_flight(admin):
    return make_flight(admin)


@pytest.fixture(name="agent")
def fixture_agent(client):
    return client.as_user("agent-1", "agent")


@pytest.fixture(name="show")
def fixture_show(admin):
    """Seats that are no flight's."""
    return admin.make_event(cabin(1), kind="show", policy={"no_single_seat_gap": False})


# --- the map -----------------------------------------------------------------------------------------------------


def test_the_map_has_every_seat_in_the_order_of_the_cabin(client, admin):
    flight = make_flight(admin, rows=11)
    entries = client.get(f"/flights/{flight}/seatmap").expect(200).json
    assert [entry["seatId"] for entry in entries] == [f"{row}{letter}" for row in range(1, 12) for letter in "ABCDEF"]
    assert all(entry == {"seatId": entry["seatId"], "state": "AVAILABLE", "heldBy": None, "holdExpiresAt": None}
               for entry in entries)


def test_the_map_says_held_confirmed_and_cancelled(client, other, admin, flight):
    hold_of_ours = held(client, flight, "1A")
    confirmed(other, flight, "1B")
    admin.post("/api/admin/seats/block", {"event_id": flight, "seat_ids": ["1C"], "reason": "broken"}).expect(200)
    ours = seatmap(client, flight)
    assert ours["1A"] == {"seatId": "1A", "state": "HELD", "heldBy": client.user,
                          "holdExpiresAt": hold_of_ours["holdExpiresAt"]}
    assert ours["1B"] == {"seatId": "1B", "state": "CONFIRMED", "heldBy": None, "holdExpiresAt": None}
    assert ours["1C"] == {"seatId": "1C", "state": "CANCELLED", "heldBy": None, "holdExpiresAt": None}
    assert ours["1D"]["state"] == "AVAILABLE"


def test_everybody_sees_their_own_seats_and_nobody_elses(client, other, admin, flight):
    held(client, flight, "1A")
    confirmed(other, flight, "1B")
    assert own(client, flight) == {"1A"}
    assert own(other, flight) == {"1B"}
    assert own(admin.as_user(), flight) == set()
    assert own(admin, flight) == set()
    assert states(admin, flight) == {"1A": "HELD", "1B": "CONFIRMED"}
    assert seatmap(other, flight)["1A"]["holdExpiresAt"] == seatmap(client, flight)["1A"]["holdExpiresAt"]


def test_the_map_follows_each_change_of_ones_own(client, flight):
    assert own(client, flight) == set()
    first = held(client, flight, "1A")["holdId"]
    assert own(client, flight) == {"1A"}
    held(client, flight, "2A")
    assert own(client, flight) == {"2A"}
    confirm(client, first).expect(404)
    confirmed(client, flight, "2A")
    assert states(client, flight) == {"2A": "CONFIRMED"} and own(client, flight) == {"2A"}
    client.post(f"/api/holds/{held(client, flight, '3A')['holdId']}/transfer", {"to_user_id": "somebody"}).expect(200)
    assert own(client, flight) == {"2A"}
    assert own(client.as_user("somebody"), flight) == {"3A"}


def test_a_node_that_has_no_map_yet_knows_whose_seats_are_whose(client, other, flight, start_node):
    held(client, flight, "1A")
    confirmed(other, flight, "1B")
    second = start_node()
    assert own(client.at(second), flight) == {"1A"}
    assert own(other.at(second), flight) == {"1B"}


def test_another_node_tells_within_a_second_whose_seat_it_is(client, flight, start_node):
    second = start_node()
    there = client.at(second)
    assert own(there, flight) == set()
    held(client, flight, "1A")
    wait_until(lambda: own(there, flight) == {"1A"}, timeout=30)
    cancelled = client.cancel(held(client, flight, "1B")["holdId"]).expect(200)
    assert cancelled.json["status"] == "cancelled"
    wait_until(lambda: own(there, flight) == set(), timeout=30)


def test_a_hold_that_is_over_shows_as_available(client, admin):
    flight = make_flight(admin, policy={"hold_ttl": 1})
    held(client, flight, "1A")
    wait_until(lambda: states(client, flight) == {}, timeout=30)
    assert own(client, flight) == set()


def test_a_removed_seat_is_in_no_map(client, admin, flight):
    assert "3F" in seatmap(client, flight)
    admin.delete(f"/api/events/{flight}/seats/3F").expect(200)
    wait_until(lambda: "3F" not in seatmap(client, flight))


def test_the_map_of_an_empty_flight(client, admin):
    flight = admin.make_event(0, kind="flight")
    assert client.get(f"/flights/{flight}/seatmap").expect(200).json == []


def test_the_tag_of_a_map_is_good_until_a_seat_changes(client, other, flight):
    answer = client.get(f"/flights/{flight}/seatmap").expect(200)
    known = {"If-None-Match": answer.headers["ETag"]}
    client.get(f"/flights/{flight}/seatmap", headers=known).expect(304)
    held(other, flight, "1A")
    changed = client.get(f"/flights/{flight}/seatmap", headers=known).expect(200)
    assert changed.headers["ETag"] != answer.headers["ETag"]


def test_the_tag_of_ones_own_map_is_nobody_elses(client, other, flight):
    """Two passengers of one browser: what one of them was told is not what the other one sees."""
    held(client, flight, "1A")
    tag = client.get(f"/flights/{flight}/seatmap").headers["ETag"]
    client.get(f"/flights/{flight}/seatmap", headers={"If-None-Match": tag}).expect(304)
    answer = other.get(f"/flights/{flight}/seatmap", headers={"If-None-Match": tag}).expect(200)
    assert answer.headers["ETag"] != tag


def test_the_map_is_compressed_for_those_who_take_it(client, flight):
    held(client, flight, "1A")
    plain = client.get(f"/flights/{flight}/seatmap")
    packed = client.get(f"/flights/{flight}/seatmap", headers={"Accept-Encoding": "gzip"}).expect(200)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body


@pytest.mark.parametrize("path", ["seatmap", "events"])
def test_what_is_no_flight_has_neither_map_nor_events(admin, show, path):
    check_problem(admin.get(f"/flights/{show}/{path}"), "event_not_found")
    check_problem(admin.get(f"/flights/nowhere/{path}"), "event_not_found")
    check_problem(admin.get(f"/flights/no%20where/{path}"), "invalid_id")


def test_another_organizations_flight_is_not_there(client, flight):
    stranger = client.as_user("stranger")
    stranger = type(stranger)(client.node, f"org-{uuid.uuid4().hex[:12]}", "user-1")
    check_problem(stranger.get(f"/flights/{flight}/seatmap"), "event_not_found")
    check_problem(hold(stranger, flight, "1A"), "event_not_found")
    check_problem(cancel(stranger, flight, "1A"), "event_not_found")


def test_an_event_that_becomes_a_flight_is_one(client, admin, show):
    check_problem(client.get(f"/flights/{show}/seatmap"), "event_not_found")
    admin.set_event(show, kind="flight")
    client.get(f"/flights/{show}/seatmap").expect(200)
    admin.set_event(show, kind="show")
    check_problem(client.get(f"/flights/{show}/seatmap"), "event_not_found")


def test_another_node_sees_that_an_event_became_a_flight_also_without_redis(client, admin, show, start_node):
    second = client.at(start_node(redis_url=""))
    check_problem(second.get(f"/flights/{show}/seatmap"), "event_not_found")
    admin.set_event(show, kind="flight")
    wait_until(lambda: second.get(f"/flights/{show}/seatmap").status == 200, timeout=30)
    held(second, show, "1A")


def test_without_postgres_memory_tells_those_who_have_no_seat(client, other, flight, start_node, proxied, database_url):
    """Whose a seat is only Postgres can prove; that somebody has it memory knows."""
    proxy, url = proxied(database_url)
    second = start_node(database_url=url)
    here, there = client.at(second), other.at(second)
    hold_of_theirs = held(there, flight, "1A")
    entry = {"seatId": "1A", "state": "HELD", "heldBy": None, "holdExpiresAt": hold_of_theirs["holdExpiresAt"]}
    assert own(there, flight) == {"1A"} and own(here, flight) == set()

    def told(client):
        """What the map says of 1A, or None while there is none."""
        answer = client.get(f"/flights/{flight}/seatmap")
        return answer.json[0] if answer.status == 200 else None

    proxy.refuse()
    try:
        assert wait_until(lambda: told(here), timeout=30) == entry
        check_problem(there.get(f"/flights/{flight}/seatmap"), "store_unavailable")
    finally:
        proxy.allow()
    assert wait_until(lambda: told(there), timeout=30) == entry | {"heldBy": other.user}


# --- hold -----------------------------------------------------------------------------------------------------------


def test_a_hold_has_the_seeds_fields_and_two_minutes(client, flight, db):
    answer = hold(client, flight, "1A", passengerId=client.user).expect(200)
    assert set(answer.json) == {"holdId", "seatId", "state", "holdExpiresAt"}
    assert (answer.json["seatId"], answer.json["state"]) == ("1A", "HELD")
    assert UUID_V7.fullmatch(answer.json["holdId"])
    known = client.get_hold(answer.json["holdId"]).expect(200).json
    assert known["expires_at"] == answer.json["holdExpiresAt"] and known["user_id"] == client.user
    assert (time_of(known["expires_at"]) - time_of(known["created_at"])).total_seconds() == 120


def test_the_same_seat_again_is_the_same_hold(client, flight):
    assert held(client, flight, "1A") == held(client, flight, "1A", passengerId=client.user)


def test_a_passenger_need_not_name_himself(client, flight):
    held(client, flight, "1A")
    client.post(f"/flights/{flight}/seats/1A/hold", body=b"").expect(200)


def test_a_new_hold_gives_the_old_one_up(client, other, flight, check_audit):
    first = held(client, flight, "1A")["holdId"]
    second = held(client, flight, "1B")["holdId"]
    assert states(client, flight) == {"1B": "HELD"}
    assert client.get_hold(first).json["reason"] == "replaced"
    held(other, flight, "1A")
    assert second != first
    check_audit(flight)


def test_a_change_of_mind_that_is_refused_costs_nothing(client, other, flight):
    first = held(client, flight, "1A")
    held(other, flight, "1B")
    check_problem(hold(client, flight, "1B"), "seat_taken")
    assert held(client, flight, "1A") == first


def test_a_confirmed_seat_stays_while_another_is_held(client, flight):
    confirmed(client, flight, "1A")
    held(client, flight, "1B")
    assert states(client, flight) == {"1A": "CONFIRMED", "1B": "HELD"}
    assert own(client, flight) == {"1A", "1B"}


def test_taken_confirmed_and_blocked_seats_are_conflicts(client, other, admin, flight):
    held(other, flight, "1A")
    check_problem(hold(client, flight, "1A"), "seat_taken")
    confirmed(other, flight, "1A")
    check_problem(hold(client, flight, "1A"), "seat_sold")
    admin.post("/api/admin/seats/block", {"event_id": flight, "seat_ids": ["1B"], "reason": "broken"}).expect(200)
    check_problem(hold(client, flight, "1B"), "seat_blocked")
    check_problem(hold(client, flight, "9Z"), "seat_not_found")


def test_a_flight_that_is_closed_takes_no_passengers_but_agents_do(client, agent, admin):
    flight = make_flight(admin, status="closed")
    check_problem(hold(client, flight, "1A"), "event_closed")
    held(agent, flight, "1A", passengerId=client.user)


def test_seats_of_what_is_no_flight_are_held_elsewhere(client, show, db, org):
    check_problem(hold(client, show, "1A"), "event_not_found")
    check_problem(hold(client, "nowhere", "1A"), "event_not_found")
    check_problem(cancel(client, show, "1A"), "event_not_found")
    assert query(db, "SELECT count(*) FROM seat_holds WHERE org_id = %s", org) == [(0,)]


def test_a_node_that_never_heard_of_the_flight_serves_it(client, other, flight, start_node):
    second = start_node()
    hold_id = held(client.at(second), flight, "1A")["holdId"]
    check_problem(hold(other.at(start_node()), flight, "1A"), "seat_taken")
    confirm(client.at(start_node()), hold_id).expect(200)


def test_an_idempotency_key_gets_the_first_answer_again(client, flight):
    key = {"Idempotency-Key": str(uuid.uuid4())}
    first = hold(client, flight, "1A", headers=key).expect(200)
    held(client, flight, "1B")                  # 1A is free again
    assert hold(client, flight, "1A", headers=key).expect(200).body == first.body
    assert states(client, flight) == {"1B": "HELD"}
    hold(client, flight, "1A", headers=key, passengerId=client.user).expect(422, "idempotency_key_reused")
    confirming = {"Idempotency-Key": str(uuid.uuid4())}
    refused = confirm(client, first.json["holdId"], headers=confirming).expect(404, "hold_not_found")
    assert confirm(client, first.json["holdId"], headers=confirming).expect(404).body == refused.body


@pytest.mark.parametrize("body, code, field", [
    (b"{", "malformed_json", None), (b"[]", "invalid_field", "body"), (b'{"passengerId":7}', "invalid_field", "passengerId"),
    (b'{"passengerId":"a b"}', "invalid_id", "passengerId"), (b'{"passengerId":""}', "invalid_id", "passengerId"),
    (b'{"passengerId":"x","passengerId":"x"}', "malformed_json", None),
])
@pytest.mark.parametrize("way", ["hold", "cancel", "confirm"])
def test_bodies_that_are_none(client, flight, way, body, code, field):
    path = f"/holds/{NEVER}/confirm" if way == "confirm" else f"/flights/{flight}/seats/1A/{way}"
    problem = check_problem(client.post(path, body=body, headers={"Content-Type": "application/json"}), code)
    assert field is None or fields_of(problem) == {field}


def test_paths_that_name_nothing(client, flight):
    check_problem(client.post(f"/flights/{flight}/seats/a%20b/hold", {}), "invalid_id")
    check_problem(client.post("/holds/7/confirm", {}), "hold_not_found")
    check_problem(client.get(f"/flights/{flight}/seats/1A/hold"), "method_not_allowed")


# --- confirm ----------------------------------------------------------------------------------------------------------


def test_a_confirmed_hold_has_the_seeds_fields_and_stays(client, flight, check_audit):
    hold_id = held(client, flight, "1A")["holdId"]
    answer = confirm(client, hold_id, passengerId=client.user).expect(200)
    assert answer.json == {"seatId": "1A", "flightId": flight, "state": "CONFIRMED"}
    assert confirm(client, hold_id).expect(200).json == answer.json
    assert client.get_hold(hold_id).json["status"] == "converted"
    check_audit(flight)


def test_holds_that_are_not_there_to_be_confirmed(client, other, admin, flight, show):
    check_problem(confirm(client, NEVER), "hold_not_found")
    given_up = held(client, flight, "1A")["holdId"]
    client.cancel(given_up).expect(200)
    check_problem(confirm(client, given_up), "hold_not_found")
    theirs = held(other, flight, "1A")["holdId"]
    check_problem(confirm(client, theirs), "hold_not_found")
    check_problem(confirm(client, theirs, passengerId=client.user), "hold_not_found")
    no_flight = client.held(show, "1A")["hold_id"]
    check_problem(confirm(client, no_flight), "hold_not_found")
    assert client.get_hold(no_flight).json["status"] == "active"
    assert states(admin, flight) == {"1A": "HELD"}


def test_a_hold_that_is_over_is_not_there(client, admin):
    flight = make_flight(admin, policy={"hold_ttl": 1})
    for way in ("/holds", "/api/holds"):
        hold_id = held(client, flight, "1A")["holdId"]
        wait_until(lambda: states(client, flight) == {}, timeout=30)
        check_problem(client.post(f"{way}/{hold_id}/confirm", {"passengerId": client.user}), "hold_not_found")


def test_the_same_over_api_holds(client, other, admin, show):
    """API.md: POST /api/holds/{hold}/confirm takes passengerId for flights, where 404 is said for 403 and hold_expired."""
    flight = make_flight(admin)
    hold_id = held(client, flight, "1A")["holdId"]
    check_problem(other.confirm(hold_id), "hold_not_found")
    check_problem(other.confirm(hold_id, passengerId=other.user), "hold_not_found")
    check_problem(other.extend(hold_id), "hold_not_found")
    check_problem(other.cancel(hold_id), "hold_not_found")
    check_problem(other.patch(f"/api/holds/{hold_id}", {"add_seat_ids": ["1B"]}), "hold_not_found")
    check_problem(client.confirm(hold_id, passengerId=other.user), "forbidden")
    hold = client.confirm(hold_id, passengerId=client.user).expect(200).json
    assert hold["status"] == "converted" and len(hold["tickets"]) == 1
    shown = client.held(show, "1A")["hold_id"]
    check_problem(other.confirm(shown), "not_hold_owner")


def test_another_seat_that_is_confirmed_frees_the_first(client, flight, check_audit, db, org):
    first = confirmed(client, flight, "1A")
    second = confirmed(client, flight, "2A")
    assert states(client, flight) == {"2A": "CONFIRMED"} and own(client, flight) == {"2A"}
    check_problem(confirm(client, first), "hold_not_found")
    confirm(client, second).expect(200)
    assert query(db, "SELECT reason FROM audit_log WHERE org_id = %s AND seat_id = '1A' AND action = 'seat_released'",
                 org) == [("replaced",)]
    check_audit(flight)


# --- cancel -----------------------------------------------------------------------------------------------------------


def test_a_held_seat_is_given_up(client, other, flight, check_audit):
    hold_id = held(client, flight, "1A")["holdId"]
    answer = cancel(client, flight, "1A", passengerId=client.user, reason="I changed my mind").expect(200)
    assert answer.json == {"seatId": "1A", "flightId": flight, "state": "AVAILABLE"}
    assert states(client, flight) == {}
    assert client.get_hold(hold_id).json["status"] == "cancelled"
    held(other, flight, "1A")
    check_audit(flight)


def test_a_confirmed_seat_is_given_up(client, other, flight, check_audit):
    hold_id = confirmed(client, flight, "1A")
    assert cancel(client, flight, "1A").expect(200).json["state"] == "AVAILABLE"
    assert states(client, flight) == {}
    check_problem(confirm(client, hold_id), "hold_not_found")
    confirmed(other, flight, "1A")
    check_audit(flight)


def test_seats_that_are_not_ones_own_are_not_there_to_be_given_up(client, other, admin, flight):
    check_problem(cancel(client, flight, "1A"), "seat_not_found")       # free
    check_problem(cancel(client, flight, "9Z"), "seat_not_found")       # none
    confirmed(other, flight, "1B")
    held(other, flight, "1A")
    admin.post("/api/admin/seats/block", {"event_id": flight, "seat_ids": ["1C"], "reason": "broken"}).expect(200)
    for seat in ("1A", "1B", "1C"):
        check_problem(cancel(client, flight, seat), "seat_not_found")
    cancel(other, flight, "1B").expect(200)
    check_problem(cancel(other, flight, "1B"), "seat_not_found")        # again
    assert states(admin, flight) == {"1A": "HELD", "1C": "CANCELLED"}


def test_why_a_seat_was_given_up_is_kept(client, admin, flight):
    confirmed(client, flight, "1A")
    cancel(client, flight, "1A", reason="ill").expect(200)
    newest = admin.get(f"/flights/{flight}/events").json["events"][0]
    assert (newest["eventType"], newest["actor"], newest["passengerId"]) == ("CANCELLED", client.user, client.user)
    assert newest["metadata"]["reason"] == "user_cancelled" and newest["metadata"]["notes"] == "ill"


# --- who may act for whom -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["agent", "service", "admin"])
def test_who_acts_for_others_names_the_passenger(client, flight, role, check_audit):
    agent = client.as_user("agent-1", role)
    problem = check_problem(hold(agent, flight, "1A"), "missing_field")
    assert fields_of(problem) == {"passengerId"}
    hold_id = held(agent, flight, "1A", passengerId=client.user)["holdId"]
    assert own(client, flight) == {"1A"} and own(agent, flight) == set()
    check_problem(confirm(agent, hold_id), "missing_field")
    check_problem(confirm(agent, hold_id, passengerId="somebody-else"), "hold_not_found")
    check_problem(confirm(agent, hold_id, passengerId=agent.user), "hold_not_found")
    confirm(agent, hold_id, passengerId=client.user).expect(200)
    check_problem(cancel(agent, flight, "1A", passengerId="somebody-else"), "seat_not_found")
    assert states(client, flight) == {"1A": "CONFIRMED"}
    cancel(agent, flight, "1A").expect(200)             # whoever has it
    held(client, flight, "1B")
    cancel(agent, flight, "1B", passengerId=client.user).expect(200)
    check_problem(cancel(agent, flight, "1B"), "seat_not_found")
    check_audit(flight)


def test_a_passenger_names_nobody_else(client, other, admin, flight):
    hold_id = held(other, flight, "1A")["holdId"]
    for answer in (hold(client, flight, "1B", passengerId=other.user), confirm(client, hold_id, passengerId=other.user),
                   cancel(client, flight, "1A", passengerId=other.user)):
        problem = check_problem(answer, "forbidden")
        assert fields_of(problem) == {"passengerId"}
    assert states(admin, flight) == {"1A": "HELD"}
    assert own(other, flight) == {"1A"}


# --- what happened to seats ------------------------------------------------------------------------------------------------


def events(admin, flight, **filters):
    return admin.get(f"/flights/{flight}/events", filters or None).expect(200).json["events"]


def test_events_are_told_in_the_seeds_words_the_newest_first(client, admin, flight):
    hold_id = held(client, flight, "1A")["holdId"]
    confirm(client, hold_id).expect(200)
    told = events(admin, flight)
    assert [event["eventType"] for event in told] == ["CONFIRMED", "HELD"]
    for event, version in zip(told, (2, 1)):
        assert set(event) == {"eventId", "seatId", "flightId", "eventType", "actor", "passengerId", "metadata", "createdAt"}
        assert (event["seatId"], event["flightId"], event["actor"], event["passengerId"]) == \
            ("1A", flight, client.user, client.user)
        assert event["metadata"]["hold_id"] == hold_id and event["metadata"]["version"] == version
        time_of(event["createdAt"])


def test_an_expiry_is_the_systems_and_a_release_is_cancelled(client, admin):
    flight = make_flight(admin, policy={"hold_ttl": 1})
    held(client, flight, "1A")
    wait_until(lambda: len(events(admin, flight)) == 2, timeout=30)
    newest = events(admin, flight)[0]
    assert (newest["eventType"], newest["actor"], newest["passengerId"]) == ("EXPIRED", "SYSTEM", client.user)
    admin.set_event(flight, kind="flight", policy={"hold_ttl": 120})  # time enough to give the next one up
    client.cancel(held(client, flight, "1A")["holdId"]).expect(200)
    assert [event["eventType"] for event in events(admin, flight)] == ["CANCELLED", "HELD", "EXPIRED", "HELD"]


def test_an_agents_event_names_both(client, agent, admin, flight):
    held(agent, flight, "1A", passengerId=client.user)
    assert [(event["actor"], event["passengerId"]) for event in events(agent, flight)] == [("agent-1", client.user)]


def test_events_can_be_picked(client, other, admin, flight):
    confirmed(client, flight, "1A")
    held(other, flight, "1B")
    picked = {name: [(event["seatId"], event["eventType"]) for event in events(admin, flight, **filters)]
              for name, filters in {
                  "seat": {"seatId": "1A"}, "type": {"eventType": "HELD"}, "passenger": {"passengerId": other.user},
                  "both": {"seatId": "1B", "eventType": "CONFIRMED"}, "none": {"eventType": "WAITLIST_ASSIGNED"}}.items()}
    assert picked == {"seat": [("1A", "CONFIRMED"), ("1A", "HELD")], "type": [("1B", "HELD"), ("1A", "HELD")],
                      "passenger": [("1B", "HELD")], "both": [], "none": []}


def test_events_of_a_time(client, admin, flight):
    confirmed(client, flight, "1A")
    confirming, holding = events(admin, flight)
    assert events(admin, flight, from_=confirming["createdAt"])[0] == confirming
    assert events(admin, flight, to=holding["createdAt"]) == []
    check_problem(admin.get(f"/flights/{flight}/events", {"from": "yesterday"}), "invalid_field")


def test_events_come_in_pages(client, admin, flight):
    for seat in ("1A", "1B", "1C", "1D"):
        held(client, flight, seat)          # each gives the one before up
    everything = events(admin, flight)
    assert len(everything) == 7
    found, after = [], {}
    while True:
        page = admin.get(f"/flights/{flight}/events", {"limit": 2} | after).expect(200).json
        found += page["events"]
        if "next" not in page:
            break
        assert len(page["events"]) == 2
        after = {"after": page["next"]}
    assert found == everything


def test_events_are_not_for_passengers(client, flight):
    check_problem(client.get(f"/flights/{flight}/events"), "forbidden")
    for role in ("agent", "service", "admin"):
        client.as_user("x", role).get(f"/flights/{flight}/events").expect(200)


@pytest.mark.parametrize("name, value, code", [
    ("seatId", "a%20b", "invalid_id"), ("passengerId", "a%20b", "invalid_id"), ("eventType", "held", "invalid_field"),
    ("eventType", "SOLD", "invalid_field"), ("after", "7", "invalid_field"), ("limit", "0", "invalid_field"),
    ("limit", "1001", "invalid_field"), ("to", "now", "invalid_field"),
])
def test_filters_that_are_none(admin, flight, name, value, code):
    problem = check_problem(admin.get(f"/flights/{flight}/events", {name: value}), code)
    assert fields_of(problem) == {name}


# --- metrics ------------------------------------------------------------------------------------------------------------------


def test_metrics_have_the_seeds_names(client, other, admin, node, flight):
    before = node.metrics()
    seatmap(client, flight)                             # not in memory yet
    seatmap(client, flight)
    held(client, flight, "1A")
    check_problem(hold(other, flight, "1A"), "seat_taken")
    check_problem(hold(other, flight, "9Z"), "seat_not_found")
    after = node.metrics()
    grown = {name: after[name] - before[name] for name in
             ("seatmap_cache_hits", "seatmap_cache_misses", "seat_hold_conflicts")}
    assert grown == {"seatmap_cache_hits": 1, "seatmap_cache_misses": 1, "seat_hold_conflicts": 1}
    for name in ("hold_expirations_total", "payment_webhooks_processed", "abuse_events_detected"):
        assert name in after


def test_expiries_are_counted_under_the_seeds_name(client, admin, node):
    flight = make_flight(admin, policy={"hold_ttl": 1})
    before = node.metrics()["hold_expirations_total"]
    held(client, flight, "1A")
    wait_until(lambda: node.metrics()["hold_expirations_total"] > before, timeout=30)  # those of other tests end, too
