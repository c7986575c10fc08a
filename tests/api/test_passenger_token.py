"""A passenger's token is for one check-in: it acts for its own passenger on its own flight, and touches nothing else.

The walk asks every path of /openapi.json, also those that will be added, about passenger B: nothing may change, and
nothing of B may be told.
"""

import re
import uuid

import pytest

from support import tokens
from support.cabin import make_flight
from support.checkins import api_keys, checked_in, get, logged_in, weigh, weighed
from support.checkouts import WEBHOOK_SECRET, started
from support.client import Client
from support.contract import check_problem
from support.tables import query

ORG = "airline-1"
NODE_SETTINGS = {"api_keys": api_keys(ORG), "webhook_secret": WEBHOOK_SECRET}
METHODS = ("get", "put", "post", "patch", "delete")
OPEN = {"/", "/health", "/livez", "/ready", "/readyz", "/metrics", "/openapi.json", "/problems/{code}", "/payments/webhook",
        "/auth/pnr-login"}
# What a passenger may ask that names nobody and no flight.
NAMELESS = {("get", "/api/events"): 200, ("get", "/api/holds"): 403}
# Each keeps all that it takes, and nothing runs out within a walk.
POLICY = {"one_hold_per_user": False, "one_seat_per_user": False, "hold_ttl": 1200, "max_hold": 1200}
TABLES = ("seats", "seat_holds", "checkouts", "payment_intents", "checkins", "waitlist", "events", "areas", "webhooks", "outbox")


@pytest.fixture
def org():
    return ORG


class World:
    """Two passengers on flights of their own, each with a hold, a confirmed seat, a checkout and a bag to be paid."""

    def __init__(self, node, admin, name):
        self.node, self.admin = node, admin
        self.flight = make_flight(admin, rows=6, policy=POLICY)
        self.a, self.b = f"A-{name}", f"B-{name}"  # the organization is all tests'
        self.checkin = {who: checked_in(admin, self.flight, who) for who in (self.a, self.b)}
        self.b_flight = make_flight(admin, rows=6, policy=POLICY)
        self.b_checkin = checked_in(admin, self.b_flight, self.b)
        self.passenger = logged_in(node, admin.org, self.a)

    def settle(self, flight, who):
        """What `who` has on the flight, by ids."""
        client = self.admin.as_user(who)
        sold = client.held(flight, "1A")
        client.confirm(sold["hold_id"]).expect(200)
        hold = client.held(flight, "2A")
        checkout = started(client, flight, [hold["hold_id"]])
        free = client.held(flight, "3A")
        return {"hold": free["hold_id"], "checkout": checkout["checkout_id"]}


@pytest.fixture
def world(node, admin):
    return World(node, admin, uuid.uuid4().hex[:12])


def snapshot(db, org):
    rows = {}
    for table in TABLES:
        with db.cursor() as cursor:
            cursor.execute(f"SELECT t::text FROM {table} t WHERE org_id = %s ORDER BY 1", (org,))
            rows[table] = [row for row, in cursor.fetchall()]
    return rows


def operations(node):
    document = Client(node, "x", token="").get("/openapi.json").expect(200).json
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield method, path


def bodies(flight, who, seat, things):
    """What may be said in a body: everything at once, so that whatever a route reads names B."""
    return {"event_id": flight, "flight_id": flight, "flightId": flight, "showId": flight, "user_id": who, "userId": who,
            "passengerId": who, "passenger_id": who, "seat_ids": [seat], "showSeatIds": [seat], "hold_ids": [things["hold"]],
            "cart_token": "c", "to_user_id": who, "payment_method": "tok_ok", "weightKg": 32, "last_name": "Mallory",
            "quantity": 1, "adjacent": False, "add_seat_ids": [seat], "name": flight, "kind": "flight", "status": "closed",
            "url": "http://127.0.0.1:1/", "reason": "because"}


def walk(world, client, flight, who, things, seat, public=frozenset()):
    """(method, path, answer) of every operation but the public ones, asked about this passenger of this flight."""
    values = {"event": flight, "seat": seat, "checkin": things["checkin"], "hold": things["hold"], "checkout": things["checkout"],
              "waitlist": things["waitlist"], "intent": things["intent"], "key": "k", "ip": "198.51.100.7", "code": "x"}
    for method, path in operations(world.node):
        if path in OPEN or path in public:
            continue
        missing = set(re.findall(r"\{(\w+)\}", path)) - set(values)
        assert not missing, f"a new kind of name in a path: {missing} - say what B's is"
        concrete = re.sub(r"\{(\w+)\}", lambda name: values[name.group(1)], path)
        if method == "get":
            concrete += f"?event_id={flight}&user_id={who}"
        elif path.endswith("/import"):
            answer = client.post(concrete, body=f"passenger_id,last_name,flight_id\n{who},Mallory,{flight}\n",
                                 headers={"Content-Type": "text/csv"})
            yield method, path, answer
            continue
        body = None if method == "get" else bodies(flight, who, seat, things)
        yield method, path, client.request(method.upper(), concrete, json=body)


def things_of(world, db, flight, who, checkin):
    things = world.settle(flight, who)
    intent = weighed(world.admin, checkin, 32)["paymentIntentId"]
    waiting = world.admin.post(f"/api/events/{flight}/waitlist", {"userId": who, "seatPreferences": {"section": "nowhere"}})
    return things | {"checkin": checkin["checkinId"], "intent": intent, "waitlist": waiting.expect(201).json["waitlistId"]}


def test_on_no_path_of_another_flight_anything_is_told_or_done(world, db):
    things = things_of(world, db, world.b_flight, world.b, world.b_checkin)
    before = snapshot(db, ORG)
    for method, path, answer in walk(world, world.passenger, world.b_flight, world.b, things, "3A"):
        wanted = {NAMELESS[method, path]} if (method, path) in NAMELESS else {403, 404}
        assert answer.status in wanted, (method, path, answer)
        assert world.b not in answer.body.decode(), (method, path, answer)
        assert snapshot(db, ORG) == before, (method, path)


def test_nor_of_its_own_passengers_other_flight(world, db, node):
    """The same passenger, another check-in: B's flight with A's name."""
    checkin = checked_in(world.admin, world.b_flight, world.a)
    passenger = tokens_for(node, world.a, world.flight, world.checkin[world.a])
    things = things_of(world, db, world.b_flight, world.a, checkin)
    before = snapshot(db, ORG)
    for method, path, answer in walk(world, passenger, world.b_flight, world.a, things, "3A"):
        wanted = {NAMELESS[method, path]} if (method, path) in NAMELESS else {403, 404}
        assert answer.status in wanted, (method, path, answer)
        assert snapshot(db, ORG) == before, (method, path)


# What any passenger may see or do on a flight, whoever else is on it: it is about seats, not about B.
PUBLIC = {"/api/events", "/api/events/{event}", "/api/events/{event}/seats", "/api/shows/{event}/seats",
          "/api/events/{event}/seats/{seat}", "/api/events/{event}/occupancy", "/api/events/{event}/occupancy/history",
          "/api/events/{event}/analytics", "/api/events/{event}/stream-ticket", "/api/events/{event}/stream",
          "/flights/{event}/seatmap"}
# Answered with what is the passenger's own, whomever they ask about.
OWN = {("get", "/api/events/{event}/waitlist"), ("get", "/flights/{event}/waitlist")}
TAKEN = {"/api/events/{event}/seats/{seat}/hold", "/flights/{event}/seats/{seat}/hold"}


def test_on_no_path_of_another_passenger_of_the_same_flight(world, db):
    things = things_of(world, db, world.flight, world.b, world.checkin[world.b])
    before = snapshot(db, ORG)
    for method, path, answer in walk(world, world.passenger, world.flight, world.b, things, "3A", PUBLIC):
        wanted = {200} if (method, path) in OWN else {403, 404} | ({409} if path in TAKEN else set())
        assert answer.status in wanted, (method, path, answer)
        assert world.b not in answer.body.decode(), (method, path, answer)
        assert answer.status != 200 or things["waitlist"] not in answer.body.decode(), (method, path, answer)
        assert snapshot(db, ORG) == before, (method, path)


# --- what it is good for -------------------------------------------------------------------------------------------


def tokens_for(node, user, flight, checkin, **more):
    token = tokens.mint(node.secret, ORG, user, event=flight, checkin=checkin["checkinId"], **more)
    return Client(node, ORG, user, token=token)


def test_on_its_own_flight_it_does_what_a_passenger_does(world):
    passenger, flight = world.passenger, world.flight
    hold = passenger.held(flight, "4A")
    passenger.extend(hold["hold_id"]).expect(200)
    passenger.get_hold(hold["hold_id"]).expect(200)
    passenger.patch(f"/api/holds/{hold['hold_id']}", {"add_seat_ids": ["4B"]}).expect(200)
    passenger.delete(f"/api/holds/{hold['hold_id']}/seats/4B").expect(200)
    assert passenger.get(f"/api/holds?event_id={flight}").expect(200).json["holds"]
    checkout = started(passenger, flight, [hold["hold_id"]])
    passenger.get(f"/api/checkouts/{checkout['checkout_id']}").expect(200)
    passenger.post(f"/api/checkouts/{checkout['checkout_id']}/complete", {"payment_method": "tok_ok"}).expect(200)
    other = passenger.held(flight, "4C")
    passenger.cancel(other["hold_id"]).expect(200)
    last = passenger.held(flight, "5A")
    passenger.confirm(last["hold_id"], passengerId=world.a).expect(200)
    assert weighed(passenger, world.checkin[world.a], 32)["state"] == "WAITING_FOR_PAYMENT"
    assert get(passenger, world.checkin[world.a]).json["currentSeat"]


def test_whatever_passenger_it_names_it_acts_for_its_own(world, db):
    hold = world.passenger.held(world.flight, "4A")
    check_problem(world.passenger.confirm(hold["hold_id"], passengerId=world.b), "forbidden")
    world.passenger.confirm(hold["hold_id"], user_id=world.b).expect(200)  # a field that nobody reads
    [seat] = query(db, "SELECT user_id FROM seats WHERE org_id = %s AND event_id = %s AND seat_id = '4A'", ORG, world.flight)
    assert seat.user_id == world.a


def test_it_gives_nobody_else_a_seat(world, db):
    hold = world.passenger.held(world.flight, "4A")
    path = f"/api/holds/{hold['hold_id']}/transfer"
    check_problem(world.passenger.post(path, {"to_user_id": world.b}), "forbidden", path)
    assert world.passenger.get_hold(hold["hold_id"]).json["user_id"] == world.a


@pytest.mark.parametrize("claims", [
    {"event": "a b"}, {"event": 7}, {"event": None}, {"checkin": "0190a000-0000-7000-8000-000000000000"},
    {"event": "x", "checkin": "no uuid"}, {"event": "x", "checkin": 7}, {"event": "x", "role": "admin"},
    {"event": "x", "role": "agent"}, {"event": ""}], ids=str)
def test_a_token_bound_to_something_else_is_none(node, claims):
    token = tokens.mint(node.secret, ORG, "ABC123", **claims)
    check_problem(Client(node, ORG, "ABC123", token=token).get("/api/events"), "unauthenticated")


def test_a_token_of_another_checkin_sees_none(world, node):
    stranger = tokens_for(node, world.a, world.flight, world.checkin[world.b])
    check_problem(get(stranger, world.checkin[world.a]), "checkin_not_found")
    check_problem(weigh(stranger, world.checkin[world.a], 20), "checkin_not_found")


def test_it_is_over_after_its_time(world, node):
    late = tokens_for(node, world.a, world.flight, world.checkin[world.a], ttl=-1)
    check_problem(get(late, world.checkin[world.a]), "token_expired")


def test_a_forged_one_is_none(world, node):
    forged = tokens.mint("another secret that is long enough to sign", ORG, world.a, event=world.flight)
    check_problem(Client(node, ORG, world.a, token=forged).get("/api/events"), "unauthenticated")


def test_tokens_from_the_cache_are_as_bound(world):
    for _ in range(3):
        check_problem(world.passenger.get(f"/api/events/{world.b_flight}"), "forbidden")
        world.passenger.get(f"/api/events/{world.flight}").expect(200)
