"""PUT, GET and list of events; seats and areas in them; policies; the end of a seat."""

import pytest

from support.client import Client, seat
from support.contract import check_problem, fields_of, seat_ids, seats_of
from support.tables import actions, area_row, audit, query, seat_row, seat_statuses
from support.waiting import wait_until

BASICS = {"name": "An evening", "kind": "event", "status": "on_sale"}
EVENT_FIELDS = {"event_id", "kind", "name", "status", "currency", "policy", "focal_point", "version", "seat_count"}
DEFAULTS = {"hold_ttl": 900, "extend_by": 300, "max_hold": 1200, "max_seats_per_hold": 8, "max_seats_per_user": 0,
            "one_hold_per_user": False, "one_seat_per_user": False, "no_single_seat_gap": False, "rehold_cooldown": 0}
OF_KIND = {"event": {}, "show": {"hold_ttl": 300, "no_single_seat_gap": True},
           "flight": {"hold_ttl": 120, "one_hold_per_user": True, "one_seat_per_user": True, "waitlist_mode": "confirm"}}


def put(admin, event, **changes):
    return admin.put(f"/api/events/{event}", BASICS | changes)


# --- PUT -----------------------------------------------------------------------------------------------------


def test_a_new_event_is_created(admin, db, org):
    answer = put(admin, "gala", seats=[seat("A-1"), seat("A-2", number=2)]).expect(201)
    created = answer.json
    assert set(created) == EVENT_FIELDS
    assert created["event_id"] == "gala" and created["seat_count"] == 2
    assert (created["name"], created["kind"], created["status"]) == ("An evening", "event", "on_sale")
    assert created["currency"] == "USD" and created["version"] >= 1
    assert admin.get("/api/events/gala").expect(200).json == created
    assert seat_statuses(db, org, "gala") == {"A-1": "available", "A-2": "available"}
    assert "event_changed" in [entry.action for entry in audit(db, org, "gala")]


def test_the_same_again_changes_nothing(admin, db, org):
    first = put(admin, "gala", seats=[seat("A-1")]).expect(201).json
    entries = audit(db, org, "gala")
    again = put(admin, "gala", seats=[seat("A-1")]).expect(200).json
    assert again == first
    assert audit(db, org, "gala") == entries


def test_a_change_raises_the_version(admin):
    first = put(admin, "gala").expect(201).json
    second = put(admin, "gala", name="Another").expect(200).json
    assert second["name"] == "Another" and second["version"] > first["version"]
    third = put(admin, "gala", name="Another", status="closed").expect(200).json
    assert third["status"] == "closed" and third["version"] > second["version"]


@pytest.mark.parametrize("kind", OF_KIND)
def test_each_kind_has_its_defaults(admin, kind):
    policy = put(admin, kind, kind=kind).expect(201).json["policy"]
    assert {name: policy[name] for name in DEFAULTS} == DEFAULTS | {k: v for k, v in OF_KIND[kind].items() if k in DEFAULTS}
    assert policy["waitlist_mode"] == OF_KIND[kind].get("waitlist_mode", "offer")
    assert policy["waitlist_offer_ttl"] > 0 and policy["payment_timeout"] > 0


def test_any_policy_field_can_be_set(admin):
    policy = {"hold_ttl": 1, "extend_by": 2, "max_hold": 3, "max_seats_per_hold": 4, "max_seats_per_user": 5,
              "one_hold_per_user": True, "one_seat_per_user": True, "no_single_seat_gap": True, "payment_timeout": 6,
              "rehold_cooldown": 7, "waitlist_mode": "confirm", "waitlist_offer_ttl": 8}
    assert put(admin, "gala", policy=policy).expect(201).json["policy"] == policy
    assert admin.get("/api/events/gala").json["policy"] == policy
    changed = put(admin, "gala", policy={"extend_by": 20}).expect(200).json["policy"]
    assert changed == policy | {"extend_by": 20}  # what isn't named stays


@pytest.mark.parametrize("field, value", [
    ("hold_ttl", 0), ("hold_ttl", -1), ("hold_ttl", 1.5), ("hold_ttl", "900"), ("hold_ttl", True), ("hold_ttl", 1e300),
    ("extend_by", 0), ("max_hold", 0), ("max_seats_per_hold", 0), ("max_seats_per_user", -1),
    ("one_hold_per_user", 1), ("one_seat_per_user", "true"), ("no_single_seat_gap", "yes"), ("payment_timeout", 0),
    ("rehold_cooldown", -1), ("waitlist_mode", "none"), ("waitlist_offer_ttl", 0),
])
def test_a_policy_that_cannot_be(admin, field, value):
    problem = check_problem(put(admin, "gala", policy={field: value}), "invalid_field", "/api/events/gala")
    assert fields_of(problem) == {f"policy.{field}"}
    check_problem(admin.get("/api/events/gala"), "event_not_found")


@pytest.mark.parametrize("field, value", [
    ("name", ""), ("name", 7), ("name", "x" * 5000), ("kind", "concert"), ("kind", 1), ("status", "open"),
    ("status", None), ("policy", []), ("policy", "x"), ("seats", {}), ("seats", [1]), ("areas", "x"), ("areas", [[]]),
    ("currency", "usd"), ("currency", "EURO"), ("currency", 978),
])
def test_a_field_that_cannot_be(admin, field, value):
    answer = put(admin, "gala", **{field: value})
    assert answer.status == 400 and answer.code in ("invalid_field", "missing_field"), answer
    check_problem(answer, answer.code)
    check_problem(admin.get("/api/events/gala"), "event_not_found")


def test_the_highest_price_is_a_million_million(admin, client):
    put(admin, "gala", seats=[seat(f"A-{n}", number=n, price=10**12) for n in range(1, 5)]).expect(201)
    assert client.held("gala", *(f"A-{n}" for n in range(1, 5)))["amount"] == 4 * 10**12


@pytest.mark.parametrize("field, value", [
    ("section", None), ("section", ""), ("row", None), ("number", None), ("number", []), ("price", -1), ("price", 1.5),
    ("price", "12"), ("price", 10**12 + 1), ("x", "left"), ("y", []), ("attributes", "x"), ("attributes", []), ("type", 1.5),
])
def test_a_seat_that_cannot_be(admin, db, org, field, value):
    """One wrong seat: nothing of the event is stored."""
    answer = put(admin, "gala", seats=[seat("A-1"), seat("A-2") | {field: value}])
    assert answer.status == 400 and f"seats[1].{field}" in fields_of(answer.json), answer
    assert seat_statuses(db, org, "gala") == {}


@pytest.mark.parametrize("field, value", [
    ("name", None), ("capacity", None), ("capacity", -1), ("capacity", 2.5), ("capacity", "10"), ("capacity", 1e12),
    ("price", -1), ("price", 10**12 + 1), ("area_id", None),
])
def test_an_area_that_cannot_be(admin, field, value):
    area = {"area_id": "floor", "name": "Floor", "capacity": 10}
    answer = put(admin, "gala", areas=[area, area | {"area_id": "other"} | {field: value}])
    assert answer.status == 400 and f"areas[1].{field}" in fields_of(answer.json), answer


def test_an_area_twice(admin):
    area = {"area_id": "floor", "name": "Floor", "capacity": 10}
    check_problem(put(admin, "gala", areas=[area, area]), "invalid_field")


def test_numbers_of_rows_and_seats_may_be_numbers(admin):
    put(admin, "gala", seats=[{"seat_id": "A-1", "section": "main", "row": 3, "number": 12}]).expect(201)
    [only] = admin.seats("gala").json["seats"]
    assert (only["row"], only["number"]) == ("3", "12")


def test_the_currency_of_an_event(client, admin):
    put(admin, "gala", currency="EUR", seats=[seat("A-1", price=1250)]).expect(201)
    hold = client.held("gala", "A-1")
    assert (hold["amount"], hold["currency"]) == (1250, "EUR")


# --- upsert --------------------------------------------------------------------------------------------------


def test_seats_that_stand_keep_their_state(client, admin, db, org, event, check_audit):
    hold = client.held(event, "A-1")
    client.confirm(client.held(event, "A-2", cart="two")["hold_id"]).expect(200)
    before = {name: seat_row(db, org, event, name) for name in ("A-1", "A-2")}
    seats = [seat(f"A-{n}", number=n, price=500) for n in range(1, 12)]
    changed = admin.put(f"/api/events/{event}", BASICS | {"seats": seats}).expect(200).json
    assert changed["seat_count"] == 11
    for name, old in before.items():
        new = seat_row(db, org, event, name)
        assert (new.status, new.hold_id, new.held_until, new.user_id) == (old.status, old.hold_id, old.held_until, old.user_id)
        assert new.price == 500 and new.version >= old.version
    assert client.get_hold(hold["hold_id"]).json["status"] == "active"
    assert "amount" not in client.get_hold(hold["hold_id"]).json  # a hold keeps the prices it was given
    client.confirm(hold["hold_id"]).expect(200)
    check_audit(event)


def test_without_seats_they_stay(admin, event, db, org):
    put(admin, event, name="renamed").expect(200)
    assert len(seat_statuses(db, org, event)) == 10


def test_seats_that_are_not_named_stay(admin, event, db, org):
    put(admin, event, seats=[seat("B-1", row="B")]).expect(200)
    assert set(seat_statuses(db, org, event)) == {f"A-{n}" for n in range(1, 11)} | {"B-1"}


def test_an_area_can_grow_and_shrink_to_what_is_used(client, admin, db, org):
    area = {"area_id": "floor", "name": "Floor", "capacity": 5, "price": 100}
    event = admin.make_event(0, areas=[area])
    client.hold(event, areas=[{"area_id": "floor", "quantity": 3}]).expect(201)
    put(admin, event, areas=[area | {"capacity": 9}]).expect(200)
    assert area_row(db, org, event, "floor")[:3] == (9, 3, 0)
    check_problem(put(admin, event, areas=[area | {"capacity": 2}]), "capacity_in_use")
    assert area_row(db, org, event, "floor").capacity == 9
    put(admin, event, areas=[area | {"capacity": 3}]).expect(200)
    check_problem(client.hold(event, cart="c2", areas=[{"area_id": "floor", "quantity": 1}]), "area_full")


def test_what_is_over_does_not_keep_a_capacity_up(client, admin, check_audit):
    """A hold past its end is over, cleaned up or not."""
    area = {"area_id": "floor", "name": "Floor", "capacity": 5}
    event = admin.make_event(0, areas=[area], policy={"hold_ttl": 1})
    hold = client.hold(event, areas=[{"area_id": "floor", "quantity": 5}]).expect(201).json
    wait_until(lambda: client.get_hold(hold["hold_id"]).json["status"] == "expired")
    put(admin, event, areas=[area | {"capacity": 1}]).expect(200)
    check_audit(event)


def test_a_new_policy_counts_for_what_comes_after(client, admin, event):
    old = client.held(event, "A-1")
    put(admin, event, policy={"hold_ttl": 60, "max_seats_per_hold": 2}).expect(200)
    new = client.held(event, "A-2", cart="c2")
    assert 895 <= old["expires_in_seconds"] <= 900 and 55 <= new["expires_in_seconds"] <= 60
    check_problem(client.hold(event, "A-3", "A-4", "A-5", cart="c3"), "too_many_seats")


def test_a_close_counts_for_what_comes_after(client, admin, event):
    hold = client.held(event, "A-1")
    put(admin, event, status="closed").expect(200)
    check_problem(client.hold_one(event, "A-2"), "event_closed")
    client.extend(hold["hold_id"]).expect(200)
    client.confirm(hold["hold_id"]).expect(200)
    put(admin, event, status="on_sale").expect(200)
    client.hold_one(event, "A-2").expect(201)


def test_a_thousand_seats_in_one_put(admin):
    seats = [seat(f"S{n}", section=f"block {n % 3}", row=str(n // 50), number=n % 50 + 1) for n in range(1000)]
    assert put(admin, "hall", seats=seats).expect(201).json["seat_count"] == 1000
    assert len(admin.seats("hall").json["seats"]) == 1000


# --- reading -------------------------------------------------------------------------------------------------


def test_the_list_has_this_organizations_events(admin, client, node):
    for name in ("b", "a", "c"):
        put(admin, name)
    stranger = Client(node, f"{admin.org}-2", "x", "admin")
    put(stranger, "z")
    listed = client.get("/api/events").expect(200).json
    assert [event["event_id"] for event in listed["events"]] == ["a", "b", "c"]
    assert "next" not in listed
    assert [event["event_id"] for event in stranger.get("/api/events").json["events"]] == ["z"]


def test_a_list_goes_on_after_its_next(admin):
    for number in range(5):
        put(admin, f"e{number}").expect(201)
    first = admin.get("/api/events?limit=2").json
    assert [event["event_id"] for event in first["events"]] == ["e0", "e1"]
    second = admin.get(f"/api/events?limit=2&after={first['next']}").json
    third = admin.get(f"/api/events?limit=2&after={second['next']}").json
    assert [event["event_id"] for event in second["events"] + third["events"]] == ["e2", "e3", "e4"]
    assert "next" not in third


@pytest.mark.parametrize("query_text", ["limit=0", "limit=-1", "limit=x", "limit=1000000", "limit=", "limit=99999999999999999999"])
def test_a_limit_that_cannot_be(client, query_text):
    check_problem(client.get(f"/api/events?{query_text}"), "invalid_field")


def test_an_after_that_is_no_id(client):
    answer = client.get("/api/events?after=a%20b")
    assert answer.status == 400, answer
    check_problem(answer, answer.code)


# --- the end of a seat ---------------------------------------------------------------------------------------


def test_a_free_seat_can_be_removed(client, admin, event, db, org, check_audit):
    before = seat_row(db, org, event, "A-1").version
    admin.delete(f"/api/events/{event}/seats/A-1").expect(200)
    row = seat_row(db, org, event, "A-1")
    assert row.status == "removed" and row.version == before + 1
    check_problem(client.seat(event, "A-1"), "seat_not_found")
    check_problem(client.hold_one(event, "A-1"), "seat_not_found")
    assert client.get(f"/api/events/{event}").json["seat_count"] == 9
    assert actions(db, org, event, "A-1")[-1] == "seat_removed"
    admin.delete(f"/api/events/{event}/seats/A-1").expect(200)  # again: nothing more happens
    assert seat_row(db, org, event, "A-1").version == before + 1
    check_audit(event)


def test_a_held_or_sold_seat_cannot_be_removed(client, admin, event):
    hold = client.held(event, "A-1")["hold_id"]
    problem = check_problem(admin.delete(f"/api/events/{event}/seats/A-1"), "seat_taken")
    assert seats_of(problem) in ({}, {"A-1": "seat_taken"})
    client.confirm(hold).expect(200)
    check_problem(admin.delete(f"/api/events/{event}/seats/A-1"), "seat_sold")


def test_a_removed_seat_comes_back_with_a_higher_version(client, admin, event, db, org, check_audit):
    client.cancel(client.held(event, "A-1")["hold_id"]).expect(200)
    admin.delete(f"/api/events/{event}/seats/A-1").expect(200)
    gone = seat_row(db, org, event, "A-1").version
    put(admin, event, seats=[seat("A-1")]).expect(200)
    row = seat_row(db, org, event, "A-1")
    assert row.status == "available" and row.version == gone + 1
    assert client.held(event, "A-1")["seats"][0]["version"] == gone + 2
    check_audit(event)


def test_holds_of_an_event_that_was_put_again_name_its_seats_anew(client, admin, event):
    hold = client.held(event, "A-1")["hold_id"]
    put(admin, event, seats=[seat("A-1", section="balcony", row="Z", number=99)]).expect(200)
    [line] = client.get_hold(hold).json["seats"]
    assert (line["section"], line["row"], line["number"]) == ("balcony", "Z", "99")
    assert seat_ids(client.get_hold(hold).json) == ["A-1"]


def test_sql_in_texts_is_text(admin, db, org):
    name = "Robert'); DROP TABLE seats; -- ${x} %s \\ \" é 漢 😀"
    put(admin, "gala", name=name, seats=[seat("A-1", section=name, row="'", number='"')]).expect(201)
    assert admin.get("/api/events/gala").json["name"] == name
    assert admin.seats("gala").json["seats"][0]["section"] == name
    assert query(db, "SELECT name FROM events WHERE org_id = %s", org)[0].name == name
