"""Each error code of the contract, provoked: the right status, the whole problem document, and nothing changed."""

import concurrent.futures
import contextlib
import json
import signal

import pytest

from support.client import Client, seat
from support.contract import STATUS_OF_CODE, check_problem, fields_of, seats_of
from support.tables import audit, hold_lines, seat_locked, seat_row, transaction
from support.waiting import at_once, wait_until
from support.wire import Wire, request

JSON = {"Content-Type": "application/json"}
GATE = 4711  # an advisory lock
UNKNOWN_HOLD = "0190a000-0000-7000-8000-000000000000"


# --- pages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(STATUS_OF_CODE))
def test_each_code_has_its_page(node, code):
    page = Client(node, "any", token="").get(f"/problems/{code}").expect(200)
    assert page.headers["Content-Type"].startswith("text/html")
    assert code in page.body.decode()


def test_a_page_of_no_code_is_not_found(node):
    check_problem(Client(node, "any", token="").get("/problems/no_such_code"), "not_found", "/problems/no_such_code")


# --- 400 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [
    "", "{", '{"event_id":"e"', '{"event_id":"e"} x', '{"event_id":"e",}', "{'event_id':'e'}", "nil",
    '{"event_id":"a","event_id":"b"}', '\ufeff{"event_id":"e"}', '{"event_id":"a\\u0000b"}', '{"a":01}',
], ids=["empty", "cut", "open", "more", "comma", "quotes", "word", "twice", "bom", "nul", "number"])
def test_malformed_json(client, body):
    problem = check_problem(client.post("/api/holds", body=body.encode(), headers=JSON), "malformed_json", "/api/holds")
    assert "byte" in problem["detail"]


@pytest.mark.parametrize("body, missing", [
    ({}, {"event_id"}),
    ({"seat_ids": ["A-1"], "cart_token": "c"}, {"event_id"}),
    ({"event_id": "e", "cart_token": "c"}, {"seat_ids"}),
    ({"event_id": "e", "seat_ids": [], "cart_token": "c"}, {"seat_ids"}),
    ({"event_id": "e", "seat_ids": ["A-1"]}, {"cart_token"}),
    ({"event_id": "e", "seat_ids": ["A-1"], "cart_token": None}, {"cart_token"}),
])
def test_missing_field_of_a_hold(client, body, missing):
    problem = check_problem(client.post("/api/holds", body), "missing_field", "/api/holds")
    assert missing <= fields_of(problem)


def test_missing_fields_elsewhere(client, admin, event):
    hold = client.held(event, "A-1")["hold_id"]
    problem = check_problem(client.post(f"/api/holds/{hold}/transfer", {}), "missing_field")
    assert fields_of(problem) == {"to_user_id"}
    problem = check_problem(admin.put("/api/events/e", {}), "missing_field", "/api/events/e")
    assert {"name", "kind", "status"} <= fields_of(problem)
    problem = check_problem(admin.post("/api/admin/seats/block", {"event_id": event}), "missing_field")
    assert "seat_ids" in fields_of(problem)
    check_problem(client.patch(f"/api/holds/{hold}", {}), "missing_field", f"/api/holds/{hold}")


@pytest.mark.parametrize("field, value", [
    ("event_id", 7), ("seat_ids", "A-1"), ("seat_ids", {"A-1": 1}), ("seat_ids", ["A-1"] * 600),
    ("seat_ids", [7]), ("seat_ids", [None]),
    ("cart_token", ""), ("cart_token", "x" * 256), ("cart_token", 7), ("cart_token", "a\nb"),
    ("areas", {}), ("areas", [7]), ("areas", [{"area_id": "floor", "quantity": 0}]),
    ("areas", [{"area_id": "floor", "quantity": -1}]), ("areas", [{"area_id": "floor", "quantity": 1.5}]),
    ("areas", [{"area_id": "floor", "quantity": "2"}]), ("areas", [{"area_id": "floor"}]), ("areas", [{"quantity": 1}]),
    ("areas", [{"area_id": "floor", "quantity": 1}] * 2),
    ("source", "fax"), ("source", 1), ("customer_email", "nobody"), ("customer_email", 1),
    ("ttl_seconds", 0), ("ttl_seconds", -1), ("ttl_seconds", "60"), ("ttl_seconds", 1.5), ("user_id", 7),
])
def test_invalid_field_of_a_hold(client, field, value):
    body = {"event_id": "e", "seat_ids": ["A-1"], "cart_token": "c"} | {field: value}
    problem = check_problem(client.post("/api/holds", body), "invalid_field", "/api/holds")
    assert any(name.startswith(field) for name in fields_of(problem)), problem


@pytest.mark.parametrize("body", ["[]", "7", '"text"', "null", "true"])
def test_a_body_that_is_no_object(client, body):
    check_problem(client.post("/api/holds", body=body, headers=JSON), "invalid_field", "/api/holds")


def test_a_cart_token_of_255_characters_is_fine(client, event):
    assert client.held(event, "A-1", cart="x" * 255)["cart_token"] == "x" * 255
    assert client.held(event, "A-2", cart="ü" * 255)["cart_token"] == "ü" * 255


def test_all_that_is_wrong_is_named_at_once(client):
    body = {"event_id": "e", "seat_ids": "A-1", "cart_token": "", "source": "fax"}
    problem = check_problem(client.post("/api/holds", body), "invalid_field")
    assert fields_of(problem) == {"seat_ids", "cart_token", "source"}


def test_duplicate_seat(client, event, db, org):
    problem = check_problem(client.hold(event, "A-1", "A-2", "A-1"), "duplicate_seat", "/api/holds")
    assert seats_of(problem) == {"A-1": "duplicate_seat"}
    assert seat_row(db, org, event, "A-1").status == "available"


def test_duplicate_seat_elsewhere(client, admin, event):
    hold = client.held(event, "A-1")["hold_id"]
    check_problem(client.patch(f"/api/holds/{hold}", {"add_seat_ids": ["A-2", "A-2"]}), "duplicate_seat")
    check_problem(client.patch(f"/api/holds/{hold}", {"add_seat_ids": ["A-1"], "remove_seat_ids": ["A-1"]}),
                  "duplicate_seat")
    body = {"event_id": event, "seat_ids": ["A-3", "A-3"], "reason": "x"}
    check_problem(admin.post("/api/admin/seats/block", body), "duplicate_seat")
    body = {"name": "e", "kind": "event", "status": "on_sale", "seats": [seat("B-1"), seat("B-1")]}
    problem = check_problem(admin.put("/api/events/other", body), "duplicate_seat")
    assert seats_of(problem) == {"B-1": "duplicate_seat"}


@pytest.mark.parametrize("bad", ["a%20b", "a%2Fb", "%C3%A4", "a:b", "a%00b", "a%0Ab", "x" * 65, "a*", "%7B%7D"])
def test_invalid_id_in_a_path(client, admin, event, bad):
    check_problem(client.get(f"/api/events/{bad}"), "invalid_id")
    check_problem(client.get(f"/api/events/{bad}/seats"), "invalid_id")
    check_problem(client.get(f"/api/events/{event}/seats/{bad}"), "invalid_id")
    check_problem(client.hold_one(event, bad), "invalid_id")
    check_problem(admin.put(f"/api/events/{bad}", {"name": "e", "kind": "event", "status": "on_sale"}), "invalid_id")


@pytest.mark.parametrize("bad", ["", " ", "a b", "a/b", "ä", "a:b", "a\nb", "x" * 65, "'; DROP TABLE seats; --", "{a}"])
def test_invalid_id_in_a_body(client, admin, event, bad):
    check_problem(client.hold(bad, "A-1"), "invalid_id")
    problem = check_problem(client.hold(event, "A-1", bad), "invalid_id")
    assert fields_of(problem) == {"seat_ids[1]"}
    check_problem(client.hold(event, areas=[{"area_id": bad, "quantity": 1}]), "invalid_id")
    check_problem(admin.hold(event, "A-1", user_id=bad), "invalid_id")
    body = {"name": "e", "kind": "event", "status": "on_sale", "seats": [seat(bad)]}
    check_problem(admin.put("/api/events/other", body), "invalid_id")


@pytest.mark.parametrize("good", ["x", "x" * 64, "FL-123", "12A", "a.b_c-D", "0", "...", "-"])
def test_ids_that_are_fine(admin, client, good):
    event = admin.make_event([seat(good)], event=good if good not in ("...",) else None)
    assert client.held(event, good)["seats"][0]["seat_id"] == good


@pytest.mark.parametrize("data", [
    b"GET /health HTTP/1.1\r\n\r\n", b"GET  /health HTTP/1.1\r\nHost: x\r\n\r\n", b"nonsense\r\n\r\n",
    b"GET /health HTTP/2.0\r\nHost: x\r\n\r\n", b"GET /health\r\n\r\n",
], ids=["no host", "two spaces", "nonsense", "version", "0.9"])
def test_bad_request(node, data):
    with Wire(node) as wire:
        answer = wire.send(data).answer()
        check_problem(answer, "bad_request")
        assert wire.is_closed()


# --- 401 and 403: more in test_auth.py ------------------------------------------------------------------------


def test_unauthenticated(node, event):
    stranger = Client(node, "any", token="")
    check_problem(stranger.get(f"/api/events/{event}/seats"), "unauthenticated", f"/api/events/{event}/seats")
    check_problem(stranger.hold_one(event, "A-1"), "unauthenticated")


def test_forbidden_for_all_but_admins(client, event):
    for role in ("user", "agent", "service"):
        caller = client.as_user("somebody", role)
        body = {"event_id": event, "seat_ids": ["A-1"], "reason": "x"}
        check_problem(caller.put(f"/api/events/{event}", {"name": "e", "kind": "event", "status": "closed"}), "forbidden")
        check_problem(caller.delete(f"/api/events/{event}/seats/A-1"), "forbidden")
        check_problem(caller.post("/api/admin/seats/block", body), "forbidden", "/api/admin/seats/block")
        check_problem(caller.post("/api/admin/seats/unblock", body), "forbidden")
        check_problem(caller.get(f"/api/admin/verify/{event}"), "forbidden")
        answer = caller.post(f"/api/events/{event}/seats/import", body="seat_id,section,row,number\n",
                             headers={"Content-Type": "text/csv"})
        check_problem(answer, "forbidden")
    assert client.get(f"/api/events/{event}").json["status"] == "on_sale"
    assert client.seat_status(event, "A-1") == "available"


def test_forbidden_to_act_for_another_user(client, event, db, org):
    check_problem(client.hold(event, "A-1", user_id="user-2"), "forbidden", "/api/holds")
    check_problem(client.hold_one(event, "A-1", user_id="user-2"), "forbidden")
    assert client.hold(event, "A-1", user_id=client.user).expect(201)
    assert seat_row(db, org, event, "A-1").user_id == client.user


def test_forbidden_to_choose_ttl_seconds(client, event):
    check_problem(client.hold(event, "A-1", ttl_seconds=60), "forbidden")


def test_not_hold_owner(client, other, event, db):
    hold = client.held(event, "A-1", "A-2")["hold_id"]
    before = hold_lines(db, hold)
    for answer in (other.extend(hold), other.cancel(hold), other.confirm(hold),
                   other.patch(f"/api/holds/{hold}", {"add_seat_ids": ["A-3"]}),
                   other.patch(f"/api/holds/{hold}", {"remove_seat_ids": ["A-1"]}),
                   other.post(f"/api/holds/{hold}/transfer", {"to_user_id": other.user}),
                   other.delete(f"/api/holds/{hold}/seats/A-1")):
        check_problem(answer, "not_hold_owner")
    assert hold_lines(db, hold) == before


# --- 404 and 405 ---------------------------------------------------------------------------------------------


def test_event_not_found(client, admin):
    check_problem(client.hold("nowhere", "A-1"), "event_not_found", "/api/holds")
    check_problem(client.hold_one("nowhere", "A-1"), "event_not_found")
    for path in ("", "/seats", "/seats/A-1", "/occupancy"):
        check_problem(client.get(f"/api/events/nowhere{path}"), "event_not_found", f"/api/events/nowhere{path}")
    body = {"event_id": "nowhere", "seat_ids": ["A-1"], "reason": "x"}
    check_problem(admin.post("/api/admin/seats/block", body), "event_not_found")
    check_problem(admin.post("/api/admin/seats/unblock", body), "event_not_found")
    check_problem(admin.delete("/api/events/nowhere/seats/A-1"), "event_not_found")
    check_problem(admin.get("/api/admin/verify/nowhere"), "event_not_found")
    answer = admin.post("/api/events/nowhere/seats/import", body="seat_id,section,row,number\nA-1,s,A,1\n",
                        headers={"Content-Type": "text/csv"})
    check_problem(answer, "event_not_found")


def test_seat_not_found(client, admin, event):
    problem = check_problem(client.hold(event, "A-1", "Z-1", "Z-2"), "seat_not_found")
    assert seats_of(problem) == {"Z-1": "seat_not_found", "Z-2": "seat_not_found"}
    check_problem(client.hold_one(event, "Z-1"), "seat_not_found")
    check_problem(client.seat(event, "Z-1"), "seat_not_found")
    check_problem(admin.delete(f"/api/events/{event}/seats/Z-1"), "seat_not_found")
    hold = client.held(event, "A-1")["hold_id"]
    check_problem(client.patch(f"/api/holds/{hold}", {"add_seat_ids": ["Z-1"]}), "seat_not_found")
    check_problem(client.delete(f"/api/holds/{hold}/seats/A-2"), "seat_not_found")
    check_problem(client.patch(f"/api/holds/{hold}", {"remove_seat_ids": ["A-2"]}), "seat_not_found")


def test_area_not_found(client, event):
    answer = client.hold(event, "A-1", areas=[{"area_id": "roof", "quantity": 1}])
    check_problem(answer, "area_not_found", "/api/holds")
    assert client.seat_status(event, "A-1") == "available"


@pytest.mark.parametrize("hold", [UNKNOWN_HOLD, "no-uuid", "x" * 200, "0190a000-0000-7000-8000-00000000000"])
def test_hold_not_found(client, hold):
    path = f"/api/holds/{hold}"
    check_problem(client.get(path), "hold_not_found", path)
    check_problem(client.delete(path), "hold_not_found", path)
    check_problem(client.patch(path, {"add_seat_ids": ["A-1"]}), "hold_not_found", path)
    check_problem(client.extend(hold), "hold_not_found")
    check_problem(client.confirm(hold), "hold_not_found")
    check_problem(client.post(f"{path}/transfer", {"to_user_id": "u"}), "hold_not_found")
    check_problem(client.delete(f"{path}/seats/A-1"), "hold_not_found")


def test_a_hold_of_another_organization_is_not_found(client, admin, event, node):
    hold = client.held(event, "A-1")["hold_id"]
    for role in ("user", "agent", "service", "admin"):
        stranger = Client(node, "another-org", client.user, role)
        check_problem(stranger.get_hold(hold), "hold_not_found")
        check_problem(stranger.cancel(hold), "hold_not_found")
        check_problem(stranger.extend(hold), "hold_not_found")
        check_problem(stranger.confirm(hold), "hold_not_found")
    assert client.get_hold(hold).json["status"] == "active"


def test_a_hold_of_another_user_is_not_found_when_read(client, other, event):
    check_problem(other.get_hold(client.held(event, "A-1")["hold_id"]), "hold_not_found")


@pytest.mark.parametrize("path", ["/nothing", "/api", "/api/", "/api/holds/", "/api//holds", "/health/", "/API/holds",
                                  "/api/events/e/seats/", "/api/holds/a/b/c/d/e/f/g/h/i", "/.well-known/x"])
def test_not_found(client, path):
    check_problem(client.get(path), "not_found", path)


@pytest.mark.parametrize("method, path, allow", [
    ("PUT", "/api/holds", {"GET", "HEAD", "POST"}),
    ("POST", "/health", {"GET", "HEAD"}),
    ("DELETE", "/api/events", {"GET", "HEAD"}),
    ("POST", "/api/events/e", {"GET", "HEAD", "PUT"}),
    ("GET", "/api/events/e/seats/A-1/hold", {"POST"}),
    ("GET", "/api/admin/seats/block", {"POST"}),
    ("PUT", f"/api/holds/{UNKNOWN_HOLD}", {"GET", "HEAD", "PATCH", "DELETE"}),
    ("GET", f"/api/holds/{UNKNOWN_HOLD}/extend", {"POST"}),
])
def test_method_not_allowed(client, method, path, allow):
    answer = client.request(method, path)
    check_problem(answer, "method_not_allowed", path)
    assert set(answer.headers["Allow"].replace(",", " ").split()) - {"OPTIONS"} == allow


def test_a_method_of_no_route_is_not_allowed(node):
    with Wire(node) as wire:
        answer = wire.send(b"TRACE /health HTTP/1.1\r\nHost: x\r\n\r\n").answer()
        answer.expect(405, "method_not_allowed")


# --- 409 -----------------------------------------------------------------------------------------------------


def test_seat_taken(client, other, event):
    other.held(event, "A-2")
    answer = client.hold(event, "A-1", "A-2")
    assert seats_of(check_problem(answer, "seat_taken", "/api/holds")) == {"A-2": "seat_taken"}
    assert answer.headers["X-Holdfast-Tier"] in ("hot", "postgres")
    assert client.seat_status(event, "A-1") == "available"


def test_memory_refuses_what_it_knows(client, other, event):
    other.held(event, "A-1")
    client.hold_one(event, "A-1").expect(409, "seat_taken")
    answer = client.hold_one(event, "A-1")
    check_problem(answer, "seat_taken", f"/api/events/{event}/seats/A-1/hold")
    assert answer.headers["X-Holdfast-Tier"] == "hot"


def test_seat_sold(client, other, event):
    other.confirm(other.held(event, "A-1")["hold_id"]).expect(200)
    assert seats_of(check_problem(client.hold(event, "A-1"), "seat_sold")) == {"A-1": "seat_sold"}
    check_problem(client.hold_one(event, "A-1"), "seat_sold")


def test_area_full(client, other, admin, db, org):
    event = admin.make_event(1, areas=[{"area_id": "floor", "name": "Floor", "capacity": 3}])
    other.hold(event, areas=[{"area_id": "floor", "quantity": 2}]).expect(201)
    check_problem(client.hold(event, "A-1", areas=[{"area_id": "floor", "quantity": 2}]), "area_full", "/api/holds")
    assert seat_row(db, org, event, "A-1").status == "available"
    client.hold(event, "A-1", areas=[{"area_id": "floor", "quantity": 1}]).expect(201)


def test_capacity_in_use(client, admin):
    event = admin.make_event(0, areas=[{"area_id": "floor", "name": "Floor", "capacity": 3}])
    client.hold(event, areas=[{"area_id": "floor", "quantity": 2}]).expect(201)
    body = {"name": "renamed", "kind": "event", "status": "closed",
            "areas": [{"area_id": "floor", "name": "Floor", "capacity": 1}]}
    check_problem(admin.put(f"/api/events/{event}", body), "capacity_in_use", f"/api/events/{event}")
    assert admin.get(f"/api/events/{event}").json["name"] != "renamed"
    body["areas"][0]["capacity"] = 2
    admin.put(f"/api/events/{event}", body).expect(200)


@pytest.mark.parametrize("what", ["hold", "extend"])
def test_request_in_progress(client, event, db, database_url, what):
    """Of two equal requests one is kept waiting in the database; the other waits 2 s for it, no longer."""
    path = f"/api/events/{event}/seats/A-1/hold"
    if what == "extend":
        path = f"/api/holds/{client.held(event, 'A-1')['hold_id']}/extend"
    body = {"cart_token": "c"}
    wait = f"WHILE NOT pg_try_advisory_xact_lock_shared({GATE}) LOOP PERFORM pg_sleep(0.02); END LOOP; RETURN NEW;"
    with trigger_on_holds(db, event, "A-1", wait), concurrent.futures.ThreadPoolExecutor(2) as pool:
        with transaction(database_url) as cursor:
            cursor.execute(f"SELECT pg_advisory_xact_lock({GATE})")
            both = [pool.submit(client.post, path, body, headers={"Idempotency-Key": "slow"}) for _ in range(2)]
            done, [first] = concurrent.futures.wait(both, 30, concurrent.futures.FIRST_COMPLETED)
        answer = done.pop().result()
        check_problem(answer, "request_in_progress", path)
        assert int(answer.headers["Retry-After"]) >= 1
        done = first.result()
    assert done.status == (201 if what == "hold" else 200), done
    again = client.post(path, body, headers={"Idempotency-Key": "slow"})
    assert (again.status, again.body) == (done.status, done.body)


@contextlib.contextmanager
def trigger_on_holds(db, event, seat_id, body):
    """While the block runs, `body` (PL/pgSQL) runs before a hold's line of this seat is written or changed."""
    name = f'"test_{event}"'
    with db.cursor() as cursor:
        cursor.execute(f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$")
        cursor.execute(f"CREATE TRIGGER {name} BEFORE INSERT OR UPDATE ON seat_holds FOR EACH ROW "
                       f"WHEN (NEW.event_id = '{event}' AND NEW.seat_id = '{seat_id}') EXECUTE FUNCTION {name}()")
        try:
            yield
        finally:
            cursor.execute(f"DROP TRIGGER {name} ON seat_holds")
            cursor.execute(f"DROP FUNCTION {name}")


def test_seat_blocked(client, admin, event):
    admin.post("/api/admin/seats/block", {"event_id": event, "seat_ids": ["A-1"], "reason": "rain"}).expect(200)
    assert seats_of(check_problem(client.hold(event, "A-1", "A-2"), "seat_blocked")) == {"A-1": "seat_blocked"}
    check_problem(client.hold_one(event, "A-1"), "seat_blocked")


def test_seat_contended(client, event, database_url, org):
    with seat_locked(database_url, org, event, "A-1"):
        answer = client.hold(event, "A-1", "A-2")
        assert seats_of(check_problem(answer, "seat_contended")) == {"A-1": "seat_contended"}
    client.hold(event, "A-1", "A-2").expect(201)


def test_hold_expired(client, admin):
    event = admin.make_event(3, policy={"hold_ttl": 1})
    hold = client.held(event, "A-1")["hold_id"]
    wait_until(lambda: client.get_hold(hold).json["status"] == "expired")
    for answer in (client.extend(hold), client.confirm(hold),
                   client.patch(f"/api/holds/{hold}", {"add_seat_ids": ["A-2"]}),
                   client.post(f"/api/holds/{hold}/transfer", {"to_user_id": "user-2"}),
                   client.delete(f"/api/holds/{hold}/seats/A-1")):
        check_problem(answer, "hold_expired")


def test_hold_not_active(client, event):
    cancelled = client.held(event, "A-1")["hold_id"]
    client.cancel(cancelled).expect(200)
    sold = client.held(event, "A-2")["hold_id"]
    client.confirm(sold).expect(200)
    for hold in (cancelled, sold):
        check_problem(client.extend(hold), "hold_not_active")
        check_problem(client.patch(f"/api/holds/{hold}", {"add_seat_ids": ["A-3"]}), "hold_not_active")
        check_problem(client.post(f"/api/holds/{hold}/transfer", {"to_user_id": "user-2"}), "hold_not_active")
    check_problem(client.confirm(cancelled), "hold_not_active")
    check_problem(client.cancel(sold), "hold_not_active")
    check_problem(client.delete(f"/api/holds/{sold}/seats/A-2"), "hold_not_active")


@pytest.mark.parametrize("status", ["scheduled", "closed", "cancelled"])
def test_event_closed(client, admin, status):
    event = admin.make_event(2, status=status)
    check_problem(client.hold(event, "A-1"), "event_closed", "/api/holds")
    check_problem(client.hold_one(event, "A-1"), "event_closed")


def test_version_conflict(client, event, db, org):
    hold = client.held(event, "A-1", "A-2")
    version = {seat["seat_id"]: seat["version"] for seat in hold["seats"]}
    answer = client.confirm(hold["hold_id"], version=version | {"A-2": version["A-2"] + 1})
    check_problem(answer, "version_conflict")
    assert seat_row(db, org, event, "A-1").status == "held"
    client.confirm(hold["hold_id"], version=version).expect(200)


# --- 411 to 431 ----------------------------------------------------------------------------------------------


def test_length_required(client, node):
    with Wire(node) as wire:
        check_problem(wire.send(request(client, "POST", "/api/holds")).answer(), "length_required", "/api/holds")


@pytest.mark.parametrize("body_headers", [[b"Content-Length: 1048577"], [b"Transfer-Encoding: chunked"]],
                         ids=["length", "chunks"])
def test_body_too_large(client, node, body_headers):
    with Wire(node) as wire:
        wire.send(request(client, "POST", "/api/holds", headers=body_headers))
        if b"chunked" in body_headers[0]:
            for _ in range(17):
                wire.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
        check_problem(wire.answer(), "body_too_large", "/api/holds")
        assert wire.is_closed()


def test_a_body_of_1_mib_is_read(client):
    body = json.dumps({"event_id": "nowhere", "seat_ids": ["A-1"], "cart_token": "c"}).encode()
    client.post("/api/holds", body=body.ljust(1024 * 1024), headers=JSON).expect(404, "event_not_found")
    client.post("/api/holds", body=body.ljust(1024 * 1024 + 1), headers=JSON).expect(413, "body_too_large")


def test_an_import_may_be_larger(admin, event):
    answer = admin.post(f"/api/events/{event}/seats/import", headers={"Content-Type": "text/csv"},
                        body="seat_id,section,row,number\n" + "\n" * (1024 * 1024 + 10) + "B-1,main,B,1\n")
    assert answer.expect(200).json["imported"] == 1


def test_uri_too_long(client, node):
    client.get("/api/events?x=" + "y" * 8000).expect(200)
    with Wire(node) as wire:
        check_problem(wire.send(request(client, "GET", "/api/events?x=" + "y" * 8192)).answer(), "uri_too_long")
    with Wire(node) as wire:
        check_problem(wire.send(request(client, "GET", "/api/events?x=" + "y" * 200_000)).answer(), "uri_too_long")


def test_headers_too_large(client, node):
    client.get("/api/events", headers={"X-Much": "y" * 15_000}).expect(200)
    with Wire(node) as wire:
        wire.send(request(client, "GET", "/api/events", headers=[b"X-Much: " + b"y" * 17_000]))
        check_problem(wire.answer(), "headers_too_large")
        assert wire.is_closed()


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "text/csv",
                                          "application/json; charset=latin1", "application/jsonp"])
def test_unsupported_media_type(client, event, content_type):
    body = json.dumps({"event_id": event, "seat_ids": ["A-1"], "cart_token": "c"})
    answer = client.post("/api/holds", body=body, headers={"Content-Type": content_type})
    check_problem(answer, "unsupported_media_type", "/api/holds")


def test_unsupported_media_type_of_an_import(admin, event):
    answer = admin.post(f"/api/events/{event}/seats/import", {"seat_id": "x"})
    check_problem(answer, "unsupported_media_type")


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON",
                                          'application/json;charset="UTF-8"'])
def test_media_types_that_are_fine(client, event, content_type):
    body = json.dumps({"event_id": event, "seat_ids": ["A-1"], "cart_token": "c"})
    client.post("/api/holds", body=body, headers={"Content-Type": content_type}).expect(201)


# --- 422 -----------------------------------------------------------------------------------------------------


def test_too_many_seats(client, event, db, org):
    check_problem(client.hold(event, *(f"A-{n}" for n in range(1, 10))), "too_many_seats", "/api/holds")
    assert seat_row(db, org, event, "A-1").status == "available"
    client.hold(event, *(f"A-{n}" for n in range(1, 9))).expect(201)


def test_user_limit(client, admin):
    event = admin.make_event(5, policy={"max_seats_per_user": 2})
    client.held(event, "A-1")
    check_problem(client.hold(event, "A-2", "A-3"), "user_limit", "/api/holds")
    assert client.seat_status(event, "A-2") == "available"


def test_idempotency_key_reused(client, event):
    key = {"Idempotency-Key": "one"}
    client.hold(event, "A-1", headers=key).expect(201)
    check_problem(client.hold(event, "A-2", headers=key), "idempotency_key_reused", "/api/holds")
    assert client.seat_status(event, "A-2") == "available"


# --- 500 and 503 ---------------------------------------------------------------------------------------------


def test_internal_tells_nothing_of_the_inside(client, event, db, org):
    with trigger_on_holds(db, event, "A-1", "RAISE EXCEPTION 'a secret of the inside';"):
        answer = client.hold(event, "A-1")
        check_problem(answer, "internal", "/api/holds")
        assert b"secret" not in answer.body and b"seat_holds" not in answer.body
        client.hold(event, "A-2").expect(201)
    assert seat_row(db, org, event, "A-1").status == "available"
    client.hold(event, "A-1").expect(201)


@pytest.fixture
def cut_off(start_node, proxied, database_url, client):
    """(a client at a node behind a proxy, that proxy)"""
    proxy, url = proxied(database_url)
    return client.at(start_node(database_url=url, request_timeout="2s")), proxy


def test_store_unavailable(cut_off, event, db, org):
    client, proxy = cut_off
    hold = client.held(event, "A-1")["hold_id"]
    proxy.refuse()
    wait_until(lambda: client.hold(event, "A-2").code == "store_unavailable", timeout=20)
    check_problem(client.hold(event, "A-2"), "store_unavailable", "/api/holds")
    check_problem(client.extend(hold), "store_unavailable")
    check_problem(client.get_hold(hold), "store_unavailable")
    check_problem(client.get("/api/events"), "store_unavailable", "/api/events")
    ready = client.get("/ready").expect(200)
    assert ready.json["postgres"] == "down"
    assert int(client.get("/ready?strict").expect(503).headers["Retry-After"]) >= 1
    client.get("/health").expect(200)
    assert seat_row(db, org, event, "A-2").status == "available"
    proxy.allow()
    wait_until(lambda: client.hold(event, "A-2").status in (200, 201), timeout=20)


def test_outcome_unknown(cut_off, event):
    client, proxy = cut_off
    client.held(event, "A-1")
    proxy.freeze()
    check_problem(client.hold(event, "A-2"), "outcome_unknown", "/api/holds")
    proxy.thaw()
    wait_until(lambda: client.hold(event, "A-2").status in (200, 201), timeout=20)


def test_overloaded(start_node, admin, event, database_url, check_audit):
    node = start_node(workers=1, queue_max=1, batch_max=1)
    users = [admin.as_user().at(node) for _ in range(10)]
    users[0].hold_one(event, "A-1").expect(201)
    with transaction(database_url) as cursor:
        cursor.execute("LOCK TABLE batches IN ACCESS EXCLUSIVE MODE")
        answers = at_once(9, lambda index: users[index + 1].hold_one(event, f"A-{index + 2}"))
    refused = [answer for answer in answers if answer.code == "overloaded"]
    assert refused
    for answer in refused:
        check_problem(answer, "overloaded")
    check_audit(event)


def test_draining(start_node, client, event):
    node = start_node(drain_delay="3s")
    user = client.at(node)
    user.get("/ready").expect(200)
    node.signal(signal.SIGTERM)
    ready = wait_until(lambda: not_ready(user), what="/ready says that the node drains")
    assert ready.json["status"] == "draining"
    assert int(ready.headers["Retry-After"]) >= 1
    hold = user.hold_one(event, "A-1").expect(201)  # a draining node still answers
    assert hold.headers["Connection"] == "close"
    assert node.await_end() == 0


def not_ready(user):
    answer = user.get("/ready")
    return answer if answer.status == 503 else None


def test_a_refusal_leaves_nothing_behind(client, other, event, db, org, check_audit):
    other.held(event, "A-3")
    before = audit(db, org, event)
    client.hold(event, "A-1", "A-2", "A-3").expect(409)
    client.hold(event, "A-1", "Z-9").expect(404)
    client.hold(event, "A-1", areas=[{"area_id": "none", "quantity": 1}]).expect(404)
    assert audit(db, org, event) == before
    assert seat_row(db, org, event, "A-1").status == "available"
    check_audit(event)


def test_the_request_id_of_a_refusal_is_the_clients(client):
    answer = client.get("/nothing", headers={"X-Request-Id": "my-request-7"})
    assert check_problem(answer, "not_found")["request_id"] == "my-request-7"


def test_text_from_the_client_cannot_break_out_of_a_problem(client):
    answer = client.get('/a%22%7D,%7B%22code%22:%22x')
    assert check_problem(answer, "not_found")["code"] == "not_found"
