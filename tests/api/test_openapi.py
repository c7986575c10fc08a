"""GET /openapi.json: what it says is there is there, and what is there it says."""

import re

import pytest

from support.client import Client
from support.contract import STATUS_OF_CODE
from support import cabin, servers, tokens

METHODS = {"get", "put", "post", "patch", "delete", "head", "options"}
VALUES = {"event": "nowhere", "seat": "A-1", "hold": "0190a000-0000-7000-8000-000000000000", "code": "seat_taken",
          "ip": "198.51.100.7", "checkout": "0190a000-0000-7000-8000-000000000000",
          "intent": "0190a000-0000-7000-8000-000000000000", "key": "k1",
          "checkin": "0190a000-0000-7000-8000-000000000000",
          "waitlist": "0190a000-0000-7000-8000-000000000000"}


@pytest.fixture(scope="module")
def document(node):
    return Client(node, "x", token="").get("/openapi.json").expect(200).json


def operations(document):
    for path, item in document["paths"].items():
        for method in METHODS & set(item):
            yield path, method, item[method]


def concrete(path):
    return re.sub(r"\{(\w+)\}", lambda name: VALUES[name.group(1)], path)


def resolve(document, node):
    while "$ref" in node:
        target = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def test_it_is_openapi_3_1(document):
    assert document["openapi"].startswith("3.1")
    assert document["info"]["title"] and document["info"]["version"]


def test_every_operation_is_served(document, admin):
    nothing = admin.get("/no/route").expect(404, "not_found").json["detail"]
    for path, method, _ in operations(document):
        answer = admin.request(method.upper(), concrete(path), json={} if method in ("put", "post", "patch") else None)
        assert answer.status != 405, (method, path)
        assert answer.status != 404 or answer.json["detail"] != nothing, (method, path)
        assert answer.status < 500, (method, path, answer)


def test_every_route_is_described(document):
    """The table of routes in the source against the document."""
    source = (servers.CLONE / "src/api/routes.c").read_text()
    routes = {(path, method.lower()) for method, path in re.findall(r'\{ HTTP_METHOD_(\w+), "([^"]+)"', source)}
    assert len(routes) > 20
    assert routes == {(path, method) for path, method, _ in operations(document)}


def test_every_answer_is_one_that_the_document_names(document, client, admin, event):
    """The answers of a short life, against what is documented for them."""
    hold = client.held(event, "A-1", "A-2")["hold_id"]
    asked = [
        ("post", "/api/holds", client.hold(event, "A-3")), ("post", "/api/holds", client.hold(event, "A-3")),
        ("post", "/api/holds", admin.hold(event, "A-3")), ("post", "/api/holds", client.hold("nowhere", "A-3")),
        ("get", "/api/holds/{hold}", client.get_hold(hold)), ("post", "/api/holds/{hold}/extend", client.extend(hold)),
        ("patch", "/api/holds/{hold}", client.patch(f"/api/holds/{hold}", {"add_seat_ids": ["A-4"]})),
        ("delete", "/api/holds/{hold}/seats/{seat}", client.delete(f"/api/holds/{hold}/seats/A-4")),
        ("post", "/api/holds/{hold}/confirm", client.confirm(hold)), ("delete", "/api/holds/{hold}", client.cancel(hold)),
        ("get", "/api/events/{event}/seats", client.seats(event)), ("get", "/api/events", client.get("/api/events")),
        ("get", "/api/events/{event}/seats/{seat}", client.seat(event, "A-1")),
    ]
    for method, path, answer in asked + asked_of_a_flight(client, admin):
        responses = document["paths"][path][method]["responses"]
        assert str(answer.status) in responses or "default" in responses, (method, path, answer.status, sorted(responses))


def test_what_a_token_of_another_flight_is_refused_is_described(document, node, admin):
    """Every GET below an event, and the ticket of its stream."""
    flight, other = cabin.make_flight(admin), cabin.make_flight(admin)
    passenger = Client(node, admin.org, "ABC123", token=tokens.mint(node.secret, admin.org, "ABC123", event=flight))
    passenger.get(f"/flights/{flight}/seatmap").expect(200)
    refused = 0
    for path, method, operation in operations(document):
        if "{event}" in path and (method == "get" or path.endswith("/stream-ticket")):
            passenger.request(method.upper(), concrete(path).replace("nowhere", other)).expect(403, "forbidden")
            assert "403" in operation["responses"], (method, path)
            refused += 1
    assert refused >= 11


def asked_of_a_flight(client, admin):
    """(method, path, answer) of what a passenger asks, and may not."""
    flight, other = cabin.make_flight(admin), client.as_user()
    hold_it, give_up = "/flights/{event}/seats/{seat}/hold", "/flights/{event}/seats/{seat}/cancel"
    holding = cabin.hold(client, flight, "1A")
    return [
        ("post", hold_it, holding), ("post", hold_it, cabin.hold(other, flight, "1A")), ("post", hold_it, cabin.hold(admin, flight, "1A")),
        ("post", hold_it, cabin.hold(client, "nowhere", "1A")), ("post", hold_it, cabin.hold(client, flight, "1B", passengerId="x")),
        ("post", "/holds/{hold}/confirm", cabin.confirm(other, holding.json["holdId"])),
        ("post", "/holds/{hold}/confirm", cabin.confirm(client, holding.json["holdId"])),
        ("get", "/flights/{event}/seatmap", client.get(f"/flights/{flight}/seatmap")),
        ("get", "/flights/{event}/events", client.get(f"/flights/{flight}/events")),
        ("get", "/flights/{event}/events", admin.get(f"/flights/{flight}/events")),
        ("post", give_up, cabin.cancel(other, flight, "1A")), ("post", give_up, cabin.cancel(client, flight, "1A")),
    ]


def test_each_operation_says_what_it_takes_and_gives(document):
    for path, method, operation in operations(document):
        where = (method, path)
        assert operation.get("summary") or operation.get("description"), where
        assert operation["responses"], where
        item = document["paths"][path]
        parameters = [resolve(document, each) for each in operation.get("parameters", []) + item.get("parameters", [])]
        named = {each["name"] for each in parameters if each["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path)), where


def test_every_reference_leads_somewhere(document):
    def walk(node):
        if isinstance(node, dict):
            if "$ref" in node:
                resolve(document, node)
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(document)


def test_operation_ids_are_distinct(document):
    ids = [operation["operationId"] for _, _, operation in operations(document) if "operationId" in operation]
    assert len(ids) == len(set(ids))


def test_codes_that_it_names_are_codes(document):
    text = str(document)
    named = set(re.findall(r"/problems/(\w+)", text)) - {"code"}
    assert named <= set(STATUS_OF_CODE), named - set(STATUS_OF_CODE)
