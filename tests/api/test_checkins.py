"""Check-ins: made one by one and from a list, read by those who may."""

import uuid

import pytest

from support.cabin import make_flight
from support.checkins import audit_of, checked_in, create, get, row_of
from support.client import Client
from support.contract import UUID_V7, check_problem, fields_of, time_of
from support.swarm import drive, shot
from support.tables import query

FIELDS = {"checkinId", "passengerId", "lastName", "flightId", "state", "baggageWeight", "paymentIntentId", "currentSeat",
          "createdAt"}


@pytest.fixture
def flight(admin):
    return make_flight(admin)


def as_role(admin, role):
    return Client(admin.node, admin.org, f"a-{role}", role)


@pytest.mark.parametrize("role", ["admin", "service"])
def test_a_checkin_is_made_and_is_there(admin, role, flight):
    made = create(as_role(admin, role), flight, "ABC123", "Jansen").expect(201)
    checkin = made.json
    assert set(checkin) == FIELDS
    assert UUID_V7.fullmatch(checkin["checkinId"]) and time_of(checkin["createdAt"])
    assert made.headers["Location"] == f"/checkins/{checkin['checkinId']}"
    assert checkin == checkin | {"passengerId": "ABC123", "lastName": "Jansen", "flightId": flight, "state": "IN_PROGRESS",
                                 "baggageWeight": None, "paymentIntentId": None, "currentSeat": None}
    for reader in (admin, as_role(admin, "agent"), as_role(admin, "service"), admin.as_user("ABC123")):
        assert get(reader, checkin).expect(200).json == checkin


def test_the_seeds_names_of_fields_are_taken(admin, flight):
    body = {"passengerId": "ABC123", "lastName": "Jansen", "flightId": flight}
    assert admin.post("/checkins", body).expect(201).json["passengerId"] == "ABC123"


@pytest.mark.parametrize("role", ["user", "agent"])
def test_others_make_none(admin, role, flight, db):
    for path, how in (("/checkins", {"json": {"passenger_id": "ABC123", "last_name": "Jansen", "flight_id": flight}}),
                      ("/checkins/import", {"body": "passenger_id,last_name,flight_id\n", "headers": {"Content-Type": "text/csv"}})):
        check_problem(as_role(admin, role).post(path, **how), "forbidden", path)
    assert query(db, "SELECT 1 FROM checkins WHERE org_id = %s", admin.org) == []


def test_the_same_passenger_again_is_the_same_checkin(admin, flight, db):
    checkin = checked_in(admin, flight, "ABC123")
    assert create(admin, flight, "ABC123").expect(200).json == checkin
    assert audit_of(db, checkin) == ["checkin_created"]
    renamed = create(admin, flight, "ABC123", "de Vries").expect(200).json
    assert renamed == checkin | {"lastName": "de Vries"}
    assert audit_of(db, checkin) == ["checkin_created", "checkin_changed"]
    second = checked_in(admin, make_flight(admin), "ABC123")
    assert second["checkinId"] != checkin["checkinId"], "another flight, another check-in"


def test_twenty_at_once_make_one(admin, flight, db):
    body = {"passenger_id": "ABC123", "last_name": "Jansen", "flight_id": flight}
    def all_at_once():
        return (yield [shot(admin, "POST", "/checkins", body) for _ in range(20)])
    answers = drive([all_at_once()], timeout=60)[0]
    assert sorted(answer.status for answer in answers) == [200] * 19 + [201]
    [checkin] = {answer.json["checkinId"] for answer in answers}
    assert audit_of(db, {"checkinId": checkin}) == ["checkin_created"]


@pytest.mark.parametrize("field, value, code", [
    ("passenger_id", None, "missing_field"), ("passenger_id", "a b", "invalid_id"), ("passenger_id", 7, "invalid_field"),
    ("flight_id", None, "missing_field"), ("flight_id", "x" * 65, "invalid_id"), ("last_name", None, "missing_field"),
    ("last_name", "", "invalid_field"), ("last_name", "   ", "invalid_field"), ("last_name", "x" * 129, "invalid_field"),
    ("last_name", "a\u0007b", "invalid_field"),
])
def test_a_wrong_field_is_named(admin, flight, field, value, code):
    body = {"passenger_id": "ABC123", "last_name": "Jansen", "flight_id": flight} | {field: value}
    assert fields_of(check_problem(admin.post("/checkins", body), code, "/checkins")) == {field}


def test_what_is_no_flight_is_not_found(admin, event):
    check_problem(create(admin, "nowhere", "ABC123"), "event_not_found")
    check_problem(create(admin, event, "ABC123"), "event_not_found")
    check_problem(create(admin, admin.make_event(3, kind="show"), "ABC123"), "event_not_found")


def test_anothers_checkin_is_as_if_there_were_none(admin, node, flight):
    checkin = checked_in(admin, flight, "ABC123")
    check_problem(get(admin.as_user("XYZ789"), checkin), "checkin_not_found")
    check_problem(get(Client(node, "another-org", "a", "admin"), checkin), "checkin_not_found")
    for unknown in (str(uuid.uuid4()), "ABC123"):
        check_problem(admin.get(f"/checkins/{unknown}"), "checkin_not_found")
        check_problem(admin.post(f"/checkins/{unknown}/baggage", {"weightKg": 1}), "checkin_not_found")


def test_the_confirmed_seat_is_shown_and_a_held_one_is_not(admin, flight):
    checkin = checked_in(admin, flight, "ABC123")
    passenger = admin.as_user("ABC123")
    hold = passenger.held(flight, "2B")
    assert get(passenger, checkin).json["currentSeat"] is None
    passenger.confirm(hold["hold_id"]).expect(200)
    assert get(passenger, checkin).json["currentSeat"] == "2B"


# --- under a key ---------------------------------------------------------------------------------------------


def test_under_a_key_the_answer_is_the_same(admin, flight):
    key = {"Idempotency-Key": "k1"}
    first = create(admin, flight, "ABC123", headers=key).expect(201).json
    again = create(admin, flight, "ABC123", headers=key).expect(201)
    assert again.json == first
    create(admin, flight, "XYZ789", headers=key).expect(422, "idempotency_key_reused")


# --- lists -----------------------------------------------------------------------------------------------------


def import_list(client, text, **more):
    return client.post("/checkins/import", body=text.encode() if isinstance(text, str) else text,
                       headers={"Content-Type": "text/csv"} | more.pop("headers", {}), **more)


def checkins_of(db, org):
    return {(row.event_id, row.passenger_id): row.last_name for row in query(
        db, "SELECT event_id, passenger_id, last_name FROM checkins WHERE org_id = %s", org)}


def test_a_list_is_imported(admin, flight, db):
    other = make_flight(admin)
    checked_in(admin, flight, "P-0", "Jansen")
    checked_in(admin, flight, "P-1", "Jansen")
    lines = [f"P-{n},Jansen,{flight}" for n in range(1, 300)] + [f"P-0,Smith,{flight}", f"P-0,\"O'Neil, Jr\",{other}"]
    answer = import_list(admin, "passenger_id,last_name,flight_id\r\n" + "\r\n".join(lines)).expect(200).json
    assert answer == {"imported": 299, "updated": 1, "errors": []}
    found = checkins_of(db, admin.org)
    assert len(found) == 301 and found[flight, "P-0"] == "Smith" and found[other, "P-0"] == "O'Neil, Jr"
    again = import_list(admin, "flight_id,passenger_id,last_name\n" + "\n".join(
        f"{flight},P-{n},Jansen" for n in range(1, 300))).expect(200).json
    assert again == {"imported": 0, "updated": 0, "errors": []}


def test_more_lines_than_one_portion(admin, flight, db):
    lines = "\n".join(f"P-{n},Jansen,{flight}" for n in range(12_000))
    answer = import_list(admin, "passenger_id,last_name,flight_id\n" + lines, timeout=60).expect(200).json
    assert answer["imported"] == len(checkins_of(db, admin.org)) == 12_000


@pytest.mark.parametrize("text, errors", [
    ("", {(1, "")}),
    ("passenger_id,last_name\n", {(1, "flight_id")}),
    ("passenger_id,last_name,flight_id,seat\n", {(1, "seat")}),
    ("passenger_id,last_name,flight_id,last_name\n", {(1, "last_name")}),
    ("passenger_id,last_name,flight_id\nP-1,Jansen,{flight}\nP 2,,nowhere else\nP-3,Jansen\nP-4,Jansen,{flight}\n",
     {(3, "passenger_id"), (3, "last_name"), (3, "flight_id"), (4, "")}),
    ("passenger_id,last_name,flight_id\nP-1,Jansen,nowhere\nP-2,Jansen,{flight}\nP-3,Jansen,{show}\n",
     {(2, "flight_id"), (4, "flight_id")}),
    ("passenger_id,last_name,flight_id\nP-1,Jansen,{flight}\nP-2,Jansen,{flight}\nP-1,Smith,{flight}\n", {(4, "passenger_id")}),
    ("passenger_id,last_name,flight_id\nP-1,\"Jansen,{flight}\nP-2,Jansen,{flight}\n", {(2, "")}),
])
def test_a_bad_list_changes_nothing(admin, flight, db, text, errors):
    text = text.replace("{flight}", flight).replace("{show}", admin.make_event(3, kind="show"))
    problem = check_problem(import_list(admin, text), "invalid_field", "/checkins/import")
    assert {(error["line"], error.get("field", "")) for error in problem["errors"]} == errors
    assert [error["line"] for error in problem["errors"]] == sorted(line for line, _ in errors)
    assert checkins_of(db, admin.org) == {}


def test_a_list_that_is_no_utf8(admin, flight, db):
    text = b"passenger_id,last_name,flight_id\nP-1,J\xe4nsen," + flight.encode()
    problem = check_problem(import_list(admin, text), "invalid_field")
    assert [(error["line"], error["field"]) for error in problem["errors"]] == [(2, "last_name")]
    assert checkins_of(db, admin.org) == {}


def test_a_list_under_a_key_is_imported_once(admin, flight):
    text = f"passenger_id,last_name,flight_id\nP-1,Jansen,{flight}\n"
    key = {"Idempotency-Key": "k1"}
    first = import_list(admin, text, headers=key).expect(200).json
    assert first["imported"] == 1
    assert import_list(admin, text, headers=key).expect(200).json == first


def test_it_stands_in_the_audit_log(admin, flight):
    checkin = checked_in(admin, flight, "ABC123")
    [entry] = admin.get("/api/admin/audit", {"event_id": flight, "action": "checkin_created"}).expect(200).json["entries"]
    assert (entry["entity_type"], entry["entity_id"], entry["actor"]) == ("Checkin", checkin["checkinId"], admin.user)
    assert entry["changes"]["details"]["last_name"] == "Jansen" and entry["changes"]["user_id"] == "ABC123"
