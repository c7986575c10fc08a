"""The history checker finds what it is there to find: each test plants one lie into a history that was true."""

import datetime
import json
import subprocess
import sys
import uuid

import psycopg2
import pytest

from checker import history_checker
from support import servers

# The columns that the checker reads, made by hand: the checker must not depend on the server's schema being right.
TABLES = """
CREATE TABLE seats (org_id text, event_id text, seat_id text, version bigint, status text, hold_id uuid, user_id text);
CREATE TABLE seat_holds (org_id text, event_id text, seat_id text, area_id text, quantity int DEFAULT 1, hold_id uuid,
                         user_id text, status text, held_until timestamptz, price bigint, ticket_ids uuid[],
                         checkout_id uuid, in_payment boolean DEFAULT false);
CREATE TABLE checkouts (checkout_id uuid, org_id text, event_id text, user_id text, status text, intent_id uuid,
                        hold_ids uuid[]);
CREATE TABLE payment_intents (intent_id uuid, subject_id uuid, org_id text, user_id text, status text, amount bigint);
CREATE TABLE areas (org_id text, event_id text, area_id text, capacity int, held int, sold int);
CREATE TABLE audit_log (id bigint GENERATED ALWAYS AS IDENTITY, org_id text, event_id text, seat_id text, area_id text,
                        version bigint, action text, quantity int, hold_id uuid, user_id text, at timestamptz,
                        held_until timestamptz, reason text, request_id text);
"""
H1, H2 = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
C1, P1, T1 = (str(uuid.UUID(int=number)) for number in (11, 21, 31))  # a checkout, its payment, a ticket
NOON = datetime.datetime(2030, 1, 1, 12, tzinfo=datetime.timezone.utc)


def at(seconds):
    """All times of these histories are seconds after noon, on either clock."""
    return None if seconds is None else NOON + datetime.timedelta(seconds=seconds)


def told_time(seconds):
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


@pytest.fixture(scope="module")
def database(postgres_url):
    name = f"checker_{uuid.uuid4().hex[:8]}"
    url = servers.make_database(postgres_url, name)
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
    yield url, connection
    connection.close()
    outside = psycopg2.connect(postgres_url)
    outside.autocommit = True
    with outside.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")
    outside.close()


class World:
    """Writes histories and what Postgres has of them; each test has an organization of its own."""

    def __init__(self, database):
        self.url, self.connection = database
        self.org = uuid.uuid4().hex
        self.lines = []
        self.line_of("run", org=self.org, request_timeout_s=5, wall_minus_mono=NOON.timestamp())

    def sql(self, text, *values):
        with self.connection.cursor() as cursor:
            cursor.execute(text, values)

    def line_of(self, kind, **about):
        self.lines.append(json.dumps({"kind": kind} | about))

    def call(self, rid, op, begin, end=None, status=None, code=None, body=None, user="u", node="n1", **about):
        answer = {} if status is None else {"status": status, "code": code, "body": body or {"code": code}, "by": node}
        self.line_of("call", rid=rid, op=op, user=user, node=node, begin=begin,
                     end=begin + 0.1 if end is None else end, event="e", **about, **answer)

    def audit(self, version, action, hold=H1, when=0, until=100, user="u", reason=None, seat="A", rid=None, area=None,
              quantity=None):
        self.sql("INSERT INTO audit_log (org_id, event_id, seat_id, area_id, version, action, quantity, hold_id,"
                 " user_id, at, held_until, reason, request_id)"
                 " VALUES (%s, 'e', %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                 self.org, None if area else seat, area, version, action, quantity, hold, user, at(when), at(until),
                 reason, rid)

    def line(self, hold, status, until=100, user="u", seat="A", area=None, quantity=1, tickets=None, checkout=None,
             paying=False):
        self.sql("INSERT INTO seat_holds VALUES (%s, 'e', %s, %s, %s, %s, %s, %s, %s, 700, %s::uuid[], %s, %s)",
                 self.org, None if area else seat, area, quantity, hold, user, status, at(until), tickets, checkout,
                 paying)

    def checkout(self, status, holds=(H1,), user="u"):
        self.sql("INSERT INTO checkouts VALUES (%s, %s, 'e', %s, %s, %s, %s::uuid[])",
                 C1, self.org, user, status, P1, list(holds))

    def intent(self, status, user="u", amount=700):
        self.sql("INSERT INTO payment_intents VALUES (%s, %s, %s, %s, %s, %s)", P1, C1, self.org, user, status, amount)

    def seat(self, status, hold=None, user=None, seat="A", version=1):
        self.sql("INSERT INTO seats VALUES (%s, 'e', %s, %s, %s, %s, %s)", self.org, seat, version, status, hold, user)

    def area(self, capacity, held, sold):
        self.sql("INSERT INTO areas VALUES (%s, 'e', 'floor', %s, %s, %s)", self.org, capacity, held, sold)

    def kinds(self):
        return {violation.kind for violation in history_checker.check(self.lines, self.connection)}


@pytest.fixture
def world(database):
    return World(database)


def told(hold=H1, status="active", seats=(("A", 1),), areas=(), user="u", until=100, born=0, tickets=0):
    """A hold as an answer tells of it."""
    return {"hold_id": hold, "event_id": "e", "user_id": user, "status": status,
            "seats": [{"seat_id": seat, "version": version} for seat, version in seats],
            "areas": [{"area_id": area, "quantity": quantity} for area, quantity in areas],
            "expires_at": told_time(until), "created_at": told_time(born),
            "tickets": [{"ticket_id": n} for n in range(tickets)]}


def held(world, **more):
    """The beginning of most: u asked for A with r1 and was told of H1, from 0 until 100."""
    world.call("r1", "hold", -0.1, 0.1, 201, body=told(), seats=["A"], **more)
    world.audit(1, "seat_held", rid="r1")


def still_held(world, **more):
    held(world, **more)
    world.line(H1, "active")
    world.seat("held", H1, "u")


def sold(world, when=50):
    world.audit(2, "seat_sold", when=when, rid="r2")
    world.line(H1, "converted")
    world.seat("sold", H1, "u", version=2)


def confirmed(world, **more):
    world.call("r2", "confirm", 49, 51, 200, hold=H1, **more,
               body=told(status="converted", seats=[("A", 2)], tickets=1))


# --- true histories ------------------------------------------------------------------------------------------


def test_a_hold_a_refusal_and_a_sale_are_true(world):
    held(world)
    world.call("r9", "hold", 10, status=409, code="seat_taken", user="v", seats=["A"],
               body={"seats": [{"seat_id": "A", "code": "seat_taken"}]})
    world.call("r8", "read_seat", 20, status=200, user="v", tier="hot",
               body={"seat_id": "A", "status": "held", "version": 1, "held_until": told_time(100)})
    confirmed(world)
    sold(world)
    assert world.kinds() == set()


def test_a_lost_answer_and_a_repeat_that_tells_the_same_hold_are_true(world):
    world.call("r1", "hold", -0.1, 0.1, seats=["A"])
    world.call("r2", "hold", 1, status=200, body=told(), seats=["A"])
    world.audit(1, "seat_held", rid="r1")
    world.line(H1, "active")
    world.seat("held", H1, "u")
    assert world.kinds() == set()


def test_a_seat_that_goes_from_one_to_the_next_is_believed_by_one_at_a_time(world):
    held(world)
    world.call("r2", "cancel", 10, status=200, body=told(status="cancelled"), hold=H1)
    world.audit(2, "seat_released", when=10.05, reason="user_cancelled", rid="r2")
    world.call("r3", "hold", 10, 11, 201, user="v", seats=["A"],
               body=told(H2, user="v", seats=[("A", 3)], until=110, born=10.06))
    world.audit(3, "seat_held", H2, 10.06, 110, "v", rid="r3")
    world.line(H1, "cancelled")
    world.line(H2, "active", 110, "v")
    world.seat("held", H2, "v", version=3)
    assert world.kinds() == set()


def test_a_request_with_a_key_that_is_told_what_its_first_attempt_did_is_true(world):
    world.call("r1", "hold", -0.1, 0.1, seats=["A"], key="k")
    world.call("r2", "hold", 1, status=201, body=told(), seats=["A"], key="k")
    world.audit(1, "seat_held", rid="r1")
    world.line(H1, "active")
    world.seat("held", H1, "u")
    assert world.kinds() == set()


def test_an_area_that_is_held_twice_with_two_carts_is_true(world):
    area_holds(world, "cart-1", "cart-2")
    assert world.kinds() == set()


def changes_seats(world, **sale):
    """u has bought A, and buys B in its place."""
    held(world)
    confirmed(world)
    world.audit(2, "seat_sold", when=50, rid="r2")
    world.call("r3", "hold", 60, 60.2, 201, seats=["B"], body=told(H2, seats=[("B", 1)], until=160, born=60.1))
    world.audit(1, "seat_held", H2, 60.1, 160, seat="B", rid="r3")
    world.call("r4", "confirm", 70, 70.2, 200, hold=H2,
               body=told(H2, "converted", seats=[("B", 2)], until=160, tickets=1))
    world.audit(2, "seat_sold", H2, 70.1, 160, seat="B", **({"rid": "r4"} | sale))
    world.audit(3, "seat_released", H1, 70.1, None, reason="replaced", rid="r4")
    world.line(H1, "cancelled", tickets=[T1])
    world.line(H2, "converted", 160, seat="B")
    world.seat("sold", H2, "u", seat="B", version=2)


def goes_to_another(world, when):
    """v gets A, which is free again."""
    hold = str(uuid.UUID(int=3))
    world.call("r9", "hold", when, when + 1, 201, user="v", seats=["A"],
               body=told(hold, user="v", seats=[("A", 4)], until=when + 100, born=when + 0.5))
    world.audit(4, "seat_held", hold, when + 0.5, when + 100, "v", rid="r9")
    world.line(hold, "active", when + 100, "v")
    world.seat("held", hold, "v", version=4)


def test_a_seat_in_the_place_of_another_is_true(world):
    changes_seats(world)
    goes_to_another(world, 70.2)
    assert world.kinds() == set()


def returns_seat(world, user="u"):
    held(world)
    confirmed(world)
    world.audit(2, "seat_sold", when=50, rid="r2")
    world.call("r3", "return", 60, status=200, seats=["A"], user=user, body={"seatId": "A", "state": "AVAILABLE"})
    world.audit(3, "seat_released", when=60.05, until=None, reason="user_cancelled", rid="r3")
    world.line(H1, "cancelled", tickets=[T1])


def test_a_sold_seat_that_is_returned_is_true(world):
    returns_seat(world)
    goes_to_another(world, 60.1)
    assert world.kinds() == set()


def test_a_paid_seat_that_is_given_back_is_still_paid(world):
    held(world)
    world.audit(2, "seat_sold", when=50, rid="r2")
    world.call("r2", "complete", 49, 51, 200, checkout=C1,
               body={"status": "completed", "tickets": [{"ticket_id": T1, "seat_id": "A"}]})
    world.checkout("completed")
    world.intent("succeeded")
    world.call("r3", "return", 60, status=200, seats=["A"], body={"seatId": "A", "state": "AVAILABLE"})
    world.audit(3, "seat_released", when=60.05, until=None, reason="user_cancelled", rid="r3")
    world.line(H1, "cancelled", tickets=[T1], checkout=C1)
    goes_to_another(world, 60.1)
    assert world.kinds() == set()


# --- what no client should hear ------------------------------------------------------------------------------


def test_what_the_run_saw_itself_is_told(world):
    world.line_of("finding", what="verify", detail="x")
    world.line_of("fault", name="node_drained", target="n1", begin=0, end=1, trouble="it did not end")
    assert world.kinds() == {"finding", "trouble"}


@pytest.mark.parametrize("status, code", [(500, "internal"), (400, "invalid_field"), (404, "event_not_found"),
                                          (404, "seat_not_found"), (401, "unauthenticated")])
def test_an_absurd_answer_is_found(world, status, code):
    world.call("r1", "hold", 0, status=status, code=code, seats=["A"])
    assert world.kinds() == {"absurd_answer"}


def test_an_answer_of_another_node_is_found(world):
    world.line_of("call", rid="r1", op="read_map", user="u", node="n1", begin=0, end=1, status=503, code="draining",
                  body={}, by="n2")
    assert world.kinds() == {"wrong_node"}


@pytest.mark.parametrize("status, code", [(409, "seat_contended"), (None, None)])
def test_a_late_answer_is_found_unless_its_node_stood_still(world, status, code):
    world.call("r1", "hold", 0, 9, status=status, code=code, seats=["A"])
    world.line_of("fault", name="postgres_stopped", target="postgres", begin=0, end=9)
    world.line_of("fault", name="way_frozen", target="n1>postgres", begin=0, end=9)
    world.line_of("fault", name="node_stopped", target="n2", begin=0, end=9)
    assert world.kinds() == {"late"}
    world.line_of("fault", name="node_stopped", target="n1", begin=1, end=8)
    assert world.kinds() == set()


# --- told, but not so ----------------------------------------------------------------------------------------


def test_a_201_without_its_row_is_found(world):
    world.call("r1", "hold", -0.1, 0.1, 201, body=told(), seats=["A"])
    world.seat("available", version=0)
    assert world.kinds() == {"told_without_row"}


def test_a_201_without_its_line_is_found(world):
    held(world)
    assert "told_without_row" in world.kinds()


def test_a_hold_with_nothing_in_it_is_found(world):
    world.call("r1", "hold", -0.1, 0.1, 201, body=told(seats=()), seats=["A"])
    assert world.kinds() == {"told_without_row"}


@pytest.mark.parametrize("wrong", [{"until": 101}, {"until": 99.999}])
def test_a_time_that_is_not_the_one_told_is_found(world, wrong):
    world.call("r1", "hold", -0.1, 0.1, 201, body=told(**wrong), seats=["A"])
    world.audit(1, "seat_held", rid="r1")
    world.line(H1, "active")
    world.seat("held", H1, "u")
    assert world.kinds() == {"told_other_time"}


def test_a_line_whose_time_has_moved_is_found(world):
    held(world)
    world.line(H1, "active", until=90)
    world.seat("held", H1, "u")
    assert world.kinds() == {"time_moved"}


def test_being_told_of_somebody_elses_hold_is_found(world):
    still_held(world)
    world.call("r2", "get_hold", 5, status=200, body=told(), hold=H1, user="v")
    assert world.kinds() == {"foreign"}


def test_a_hold_told_to_one_that_is_another_ones_in_postgres_is_found(world):
    world.call("r1", "hold", -0.1, 0.1, 201, body=told(), seats=["A"])
    world.call("r2", "hold", -0.1, 0.1, seats=["A"], user="v")
    world.audit(1, "seat_held", user="v", rid="r2")
    world.line(H1, "active", user="v")
    world.seat("held", H1, "v")
    assert world.kinds() == {"told_otherwise"}


def test_a_201_for_what_another_request_did_is_found(world):
    still_held(world)
    world.call("r2", "hold", 5, status=201, body=told(), seats=["A"])
    assert "told_otherwise" in world.kinds()


def test_an_area_told_but_not_held_is_found(world):
    world.call("r1", "hold", -0.1, 0.1, 201, body=told(seats=(), areas=[("floor", 2)]), areas={"floor": 2})
    world.audit(1, "seat_held", area="floor", quantity=1, rid="r1")
    world.line(H1, "active", area="floor", quantity=1)
    assert world.kinds() == {"told_without_row"}


def test_an_area_held_for_another_time_than_told_is_found(world):
    world.call("r1", "hold", -0.1, 0.1, 201, body=told(seats=(), areas=[("floor", 2)]), areas={"floor": 2})
    world.audit(1, "seat_held", area="floor", quantity=2, until=99.95, rid="r1")
    world.line(H1, "active", area="floor", quantity=2, until=99.95)
    assert world.kinds() == {"told_other_time"}


def test_a_sale_told_but_not_made_is_found(world):
    still_held(world)
    confirmed(world)
    assert world.kinds() == {"told_without_row"}


def test_a_sale_that_is_undone_is_found(world):
    held(world)
    confirmed(world)
    sold(world)
    world.call("r3", "cancel", 60, hold=H1)
    world.audit(3, "seat_released", when=60, reason="user_cancelled", rid="r3")
    assert "sale_lost" in world.kinds()


@pytest.mark.parametrize("sale", [{"rid": "r8"}, {"user": "w"}])
def test_a_sold_seat_that_nothing_takes_the_place_of_is_found(world, sale):
    changes_seats(world, **sale)
    world.seat("available", version=3)
    assert "replaced_by_nothing" in world.kinds()


def test_a_sold_seat_that_another_user_returns_is_found(world):
    returns_seat(world, user="w")
    world.seat("available", version=3)
    assert world.kinds() == {"other_than_asked"}


def test_a_sold_seat_that_an_administrator_releases_is_found(world):
    held(world)
    confirmed(world)
    world.audit(2, "seat_sold", when=50, rid="r2")
    world.call("r3", "admin_release", 60, status=200, seats=["A"], body={})
    world.audit(3, "seat_released", when=60.05, until=None, reason="admin_override", rid="r3")
    world.line(H1, "cancelled")
    world.seat("available", version=3)
    assert world.kinds() == {"sold_released", "other_than_asked"}


def test_a_seat_that_is_believed_to_be_sold_and_goes_to_another_too_early_is_found(world):
    returns_seat(world)
    goes_to_another(world, 58)
    assert "two_believe" in world.kinds()


def test_a_sale_with_too_few_tickets_is_found(world):
    held(world)
    world.call("r2", "confirm", 49, 51, 200, body=told(status="converted", seats=[("A", 2)]), hold=H1)
    sold(world)
    assert world.kinds() == {"told_otherwise"}


def test_a_cancelled_hold_that_stands_is_found(world):
    still_held(world)
    world.call("r2", "cancel", 10, status=200, body=told(status="cancelled"), hold=H1)
    assert world.kinds() == {"over_but_stands"}


def test_a_hold_that_stands_and_is_denied_is_found(world):
    still_held(world)
    world.call("r2", "extend", 30, status=404, code="hold_not_found", hold=H1)
    assert world.kinds() == {"denied"}


# --- stands, but not told ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status, code", [(409, "seat_contended"), (503, "store_unavailable"), (503, "overloaded"),
                                          (503, "draining"), (422, "user_limit")])
def test_a_refused_hold_that_stands_is_found(world, status, code):
    world.call("r1", "hold", -0.1, 0.1, status, code, seats=["A"])
    world.audit(1, "seat_held", rid="r1")
    world.line(H1, "active")
    world.seat("held", H1, "u")
    assert world.kinds() == {"refused_but_stands"}


def test_a_hold_that_was_over_before_its_answer_was_written_is_told_to_be_over(world):
    world.call("r1", "hold", -0.1, 100.1, 409, "hold_expired", seats=["A"])
    world.line_of("fault", name="node_stopped", target="n1", begin=0, end=100)
    world.audit(1, "seat_held", rid="r1")
    world.line(H1, "active")
    world.seat("held", H1, "u")
    assert world.kinds() == set()


def test_a_hold_that_is_told_to_be_over_and_is_not_is_found(world):
    world.call("r1", "hold", -0.1, 0.1, 409, "hold_expired", seats=["A"])
    world.audit(1, "seat_held", rid="r1")
    world.line(H1, "active")
    world.seat("held", H1, "u")
    assert world.kinds() == {"refused_but_stands"}


def test_a_node_whose_clock_has_just_jumped_may_take_a_grant_for_over(world):
    world.call("r1", "hold", 9.9, 10.1, 409, "hold_expired", seats=["A"])
    world.audit(1, "seat_held", when=10, rid="r1")
    world.line(H1, "active")
    world.seat("held", H1, "u")
    world.line_of("fault", name="clock_jumps", target="n2's clock", begin=9, end=10)
    assert world.kinds() == {"refused_but_stands"}
    world.line_of("fault", name="clock_jumps", target="n1's clock", begin=9, end=10)
    assert world.kinds() == set()


def test_a_refused_sale_that_stands_is_found(world):
    held(world)
    world.call("r2", "confirm", 49, 51, 409, "hold_expired", hold=H1)
    sold(world)
    assert world.kinds() == {"refused_but_stands"}


@pytest.mark.parametrize("status, code", [(None, None), (503, "outcome_unknown")])
def test_what_is_unknown_may_stand(world, status, code):
    world.call("r1", "hold", -0.1, 0.1, status, code, seats=["A"])
    world.audit(1, "seat_held", rid="r1")
    world.line(H1, "active")
    world.seat("held", H1, "u")
    assert world.kinds() == set()


def test_what_nobody_asked_for_is_found(world):
    world.audit(1, "seat_held", rid="r1")
    world.line(H1, "active")
    world.seat("held", H1, "u")
    assert world.kinds() == {"unasked"}


@pytest.mark.parametrize("op, more", [
    ("hold", {"seats": ["B"]}), ("hold", {"seats": ["A"], "user": "v"}), ("extend", {"hold": H1}),
    ("patch", {"hold": H2, "add": ["A"]})])
def test_what_was_asked_for_otherwise_is_found(world, op, more):
    world.call("r1", op, -0.1, **more)
    world.audit(1, "seat_held", rid="r1")
    world.line(H1, "active")
    world.seat("held", H1, "u")
    assert world.kinds() == {"other_than_asked"}


# --- once ----------------------------------------------------------------------------------------------------


def test_a_key_that_was_done_twice_is_found(world):
    still_held(world, key="k")
    world.call("r2", "hold", 1, seats=["A"], key="k")
    world.audit(1, "seat_held", H2, seat="B", rid="r2")
    assert "done_twice" in world.kinds()


def test_a_key_that_is_told_two_holds_is_found(world):
    still_held(world, key="k")
    world.call("r2", "hold", 1, status=201, body=told(H2), seats=["A"], key="k")
    assert "done_twice" in world.kinds()


def area_holds(world, *carts):
    """One hold of 2 for each cart, all alive at one time."""
    for n, cart in enumerate(carts, 1):
        hold = str(uuid.UUID(int=n))
        world.call(f"r{n}", "hold", n, n + 0.9, areas={"floor": 2}, cart=cart)
        world.audit(n, "seat_held", hold, n + 0.5, 100, area="floor", quantity=2, rid=f"r{n}")
        world.line(hold, "active", area="floor", quantity=2)


def test_a_cart_that_got_its_area_twice_is_found(world):
    area_holds(world, "cart-1", "cart-1")
    assert world.kinds() == {"done_twice"}


# --- the story of a seat -------------------------------------------------------------------------------------


def test_a_sale_to_one_who_did_not_hold_it_is_found(world):
    held(world)
    world.call("r2", "confirm", 49, 51, hold=H2, user="v")
    world.audit(2, "seat_sold", H2, 50, user="v", rid="r2")
    assert "sold_to_stranger" in world.kinds()


def test_a_sale_of_a_hold_that_was_over_is_found(world):
    held(world)
    world.call("r2", "confirm", 99, 101.1, hold=H1)
    sold(world, when=100.5)
    assert world.kinds() == {"sold_over"}


def test_a_seat_that_is_taken_from_its_holder_is_found(world):
    held(world)
    world.call("r2", "hold", 9, 11, seats=["A"], user="v")
    world.audit(2, "seat_held", H2, 10, 110, "v", rid="r2")
    assert "held_twice" in world.kinds()


def test_a_hold_that_was_ended_early_is_found(world):
    held(world)
    world.audit(2, "seat_released", when=99.9, reason="ttl_expired")
    world.line(H1, "expired")
    world.seat("available", version=2)
    assert world.kinds() == {"ended_early"}


# --- beliefs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("giving", [None, {"op": "extend"}, {"op": "cancel", "status": 503, "code": "overloaded"}])
def test_two_who_believe_at_one_time_are_found(world, giving):
    """Each has rows, as if they had come one after the other; only the first never gave it away."""
    held(world)
    if giving:
        world.call("r2", begin=5, hold=H1, **giving)
    world.call("r3", "hold", 9, 11, 201, user="v", seats=["A"],
               body=told(H2, user="v", seats=[("A", 3)], until=110, born=10))
    world.audit(2, "seat_released", when=9.5, reason="admin_override", rid="r2" if giving else None)
    world.audit(3, "seat_held", H2, 10, 110, "v", rid="r3")
    assert "two_believe" in world.kinds()


def test_a_sold_seat_is_believed_for_ever(world):
    held(world)
    confirmed(world)
    sold(world)
    world.call("r3", "hold", 500, 501, 201, user="v", seats=["A"],
               body=told(H2, user="v", seats=[("A", 3)], until=600, born=500.5))
    assert "two_believe" in world.kinds()


# --- refusals ------------------------------------------------------------------------------------------------


def refused(world, begin, code="seat_taken", user="v"):
    world.call("r9", "hold", begin, status=409, code=code, user=user, seats=["A"],
               body={"seats": [{"seat_id": "A", "code": code}]})


def freed_at_50(world):
    held(world)
    world.call("r2", "cancel", 49.9, 50.1, 200, body=told(status="cancelled"), hold=H1)
    world.audit(2, "seat_released", when=50, reason="user_cancelled", rid="r2")
    world.line(H1, "cancelled")
    world.seat("available", version=2)


def test_a_stale_taken_is_true_for_a_while_and_then_found(world):
    freed_at_50(world)
    refused(world, 52)
    assert world.kinds() == set()
    refused(world, 54)
    assert world.kinds() == {"taken_by_nobody"}


def test_taken_before_anybody_had_it_is_found(world):
    still_held(world)
    refused(world, -5)
    assert world.kinds() == {"taken_by_nobody"}


def test_sold_that_was_only_held_is_found(world):
    still_held(world)
    refused(world, 10, "seat_sold")
    assert world.kinds() == {"taken_by_nobody"}


def test_taken_to_its_own_holder_is_found(world):
    still_held(world)
    refused(world, 10, user="u")
    assert world.kinds() == {"taken_by_nobody"}


# --- reads ---------------------------------------------------------------------------------------------------


def shown(world, begin, status="held", version=1, until=100, tier="postgres", user="v", node="n1", stale=None, **more):
    body = {"seat_id": "A", "status": status, "version": version} | more
    if until is not None:
        body["held_until"] = told_time(until)
    world.call(f"r-{begin}", "read_seat", begin, status=200, body=body, tier=tier, user=user, node=node, stale=stale)


@pytest.mark.parametrize("wrong", [{"version": 2}, {"status": "available"}, {"status": "sold"}, {"until": 101},
                                   {"mine": True}])
@pytest.mark.parametrize("tier", ["hot", "redis", "postgres"])
def test_a_read_of_what_never_was_is_found(world, wrong, tier):
    still_held(world)
    shown(world, 10, tier=tier, **wrong)
    assert world.kinds() == {"shown_untrue"}


def test_a_map_of_what_never_was_is_found(world):
    still_held(world)
    world.call("r2", "read_map", 10, status=200, body={"seats": {"A": ["sold", 1, None]}})
    assert world.kinds() == {"shown_untrue"}


def test_a_hold_that_is_over_may_be_shown_as_free(world):
    still_held(world)
    shown(world, 100, status="available", until=None)
    assert world.kinds() == set()


@pytest.mark.parametrize("tier, node, begin", [("postgres", "n2", 50.2), ("hot", "n1", 50.2), ("hot", "n2", 54),
                                               ("redis", "n1", 54)])
def test_a_read_that_is_older_than_it_may_be_is_found(world, tier, node, begin):
    freed_at_50(world)
    shown(world, begin, tier=tier, node=node)
    assert world.kinds() == {"shown_stale"}


@pytest.mark.parametrize("tier, node", [("hot", "n2"), ("redis", "n1")])
def test_another_nodes_memory_and_redis_may_be_a_little_old(world, tier, node):
    freed_at_50(world)
    shown(world, 51, tier=tier, node=node)
    assert world.kinds() == set()


def test_what_says_that_it_may_be_stale_may_be(world):
    freed_at_50(world)
    shown(world, 80, tier="redis", stale="true")
    assert world.kinds() == set()


# --- checkouts and payments ----------------------------------------------------------------------------------


def checkout_begun(world):
    """u has A with H1 until 200, in the checkout C1."""
    held(world)
    world.call("r2", "checkout_start", 10, status=201,
               body={"checkout_id": C1, "status": "open", "holds": [told(seats=[("A", 2)], until=200)]})
    world.audit(2, "hold_extended", when=10.05, until=200, rid="r2")


def paying(world, **answer):
    """u pays from 50 on."""
    checkout_begun(world)
    world.call("r3", "complete", 49.9, 50.1, checkout=C1, **answer)
    world.audit(3, "payment_started", when=50, until=200, rid="r3")


def tables_of_a_sale(world, amount=700):
    world.checkout("completed")
    world.intent("succeeded", amount=amount)
    world.line(H1, "converted", 200, tickets=[T1], checkout=C1)
    world.seat("sold", H1, "u", version=4)


def tables_of_a_failure(world, status="failed"):
    world.checkout("failed")
    world.intent(status)
    world.line(H1, "cancelled", 200, checkout=C1)
    world.seat("available", version=4)


SALE = {"status": "completed", "tickets": [{"ticket_id": T1, "seat_id": "A"}]}
PENDING = {"status": "payment_pending", "payment_intent_id": P1}


def completed(world, sold_at=50.05, body=SALE, rid="r3", **more):
    paying(world, status=200, body=body)
    world.audit(4, "seat_sold", when=sold_at, until=None, rid=rid)
    tables_of_a_sale(world, **more)


def word(world, begin, status, told=None, rid="r4"):
    world.call(rid, "webhook", begin, user="provider", intent=P1, status=200,
               body={"intentId": P1, "status": told or status})


def test_a_completed_checkout_is_true(world):
    completed(world)
    assert world.kinds() == set()


def test_a_payment_that_the_webhook_decides_after_the_end_of_the_hold_is_true(world):
    paying(world, status=202, body=PENDING)
    word(world, 300, "succeeded")
    world.audit(4, "seat_sold", when=300.05, until=None, rid="r4")
    tables_of_a_sale(world)
    assert world.kinds() == set()


@pytest.mark.parametrize("rid", [None, "r3"])
def test_a_payment_that_fails_frees_its_seat_without_being_told_so(world, rid):
    if rid:
        paying(world, status=402, code="payment_failed")
    else:
        paying(world, status=202, body=PENDING)
    world.audit(4, "seat_released", when=60, reason="payment_failed", rid=rid)
    world.call("r5", "hold", 59, 61, 201, user="v", seats=["A"],
               body=told(H2, user="v", seats=[("A", 5)], until=160, born=60))
    world.audit(5, "seat_held", H2, 60.5, 160, "v", rid="r5")
    tables_of_a_failure(world, "failed" if rid else "expired")
    world.line(H2, "active", 160, "v")
    assert world.kinds() == set()


def test_a_provider_that_can_not_be_asked_leaves_the_hold_as_it_was(world):
    paying(world, status=503, code="payment_unavailable")
    world.audit(4, "payment_stopped", when=51, until=200, rid="r3")
    world.checkout("open")
    world.intent("void")
    world.line(H1, "active", 200, checkout=C1)
    world.seat("held", H1, "u", version=4)
    assert world.kinds() == set()


def test_an_admin_may_end_what_others_believe_in(world):
    held(world)
    world.call("r2", "admin_release", 9, 10, 200, user="admin", seats=["A"], body={"seats_released": 1})
    world.audit(2, "seat_released", when=9.5, reason="admin_override", rid="r2")
    world.call("r3", "hold", 9, 11, 201, user="v", seats=["A"],
               body=told(H2, user="v", seats=[("A", 3)], until=110, born=10))
    world.audit(3, "seat_held", H2, 10, 110, "v", rid="r3")
    world.line(H1, "cancelled")
    world.line(H2, "active", 110, "v")
    world.seat("held", H2, "v", version=3)
    assert world.kinds() == set()


def test_a_402_whose_seat_was_sold_by_it_is_found(world):
    paying(world, status=402, code="payment_failed")
    world.audit(4, "seat_sold", when=50.05, until=None, rid="r3")
    tables_of_a_sale(world)
    assert world.kinds() == {"refused_but_stands"}


@pytest.mark.parametrize("code", ["hold_expired", "hold_not_active", "payment_in_flight"])
def test_a_refused_payment_that_stands_is_found(world, code):
    paying(world, status=409, code=code)
    world.checkout("paying")
    world.intent("pending")
    world.line(H1, "active", 200, checkout=C1, paying=True)
    world.seat("held", H1, "u", version=3)
    assert world.kinds() == {"refused_but_stands"}


@pytest.mark.parametrize("tickets", [[], [{"ticket_id": P1, "seat_id": "A"}], [{"ticket_id": T1, "seat_id": "B"}],
                                     [*SALE["tickets"], {"ticket_id": P1}]])
def test_other_tickets_than_were_made_are_found(world, tickets):
    completed(world, body=SALE | {"tickets": tickets})
    assert "told_otherwise" in world.kinds()


def test_a_completed_checkout_that_is_not_is_found(world):
    paying(world, status=200, body=SALE)
    world.audit(4, "seat_released", when=60, reason="payment_failed", rid="r3")
    tables_of_a_failure(world)
    assert "sale_lost" in world.kinds()


def test_a_checkout_that_was_told_and_is_not_there_is_found(world):
    checkout_begun(world)
    world.line(H1, "active", 200)
    world.seat("held", H1, "u", version=2)
    assert world.kinds() == {"told_without_row"}


def test_a_sale_for_another_amount_than_was_paid_is_found(world):
    completed(world, amount=1400)
    assert world.kinds() == {"wrong_amount"}


def test_a_seat_in_payment_that_its_time_ends_is_found(world):
    paying(world, status=202, body=PENDING)
    world.audit(4, "seat_released", when=200, reason="ttl_expired")
    tables_of_a_failure(world, "expired")
    assert world.kinds() == {"broke_payment"}


def test_a_sale_that_nobody_paid_for_is_found(world):
    completed(world)
    world.sql("UPDATE payment_intents SET status = 'refund_required' WHERE org_id = %s", world.org)
    assert world.kinds() == {"sale_lost", "sold_not_paid"}


def test_a_hold_may_be_bought_another_way_after_its_payment_came_to_nothing(world):
    paying(world, status=503, code="payment_unavailable")
    world.audit(4, "payment_stopped", when=51, until=200, rid="r3")
    world.call("r4", "confirm", 59, 61, 200, hold=H1,
               body=told(until=200, status="converted", seats=[("A", 5)], tickets=1))
    world.audit(5, "seat_sold", when=60, until=None, rid="r4")
    world.checkout("open")
    world.intent("void")
    world.line(H1, "converted", 200, tickets=[T1], checkout=C1)
    world.seat("sold", H1, "u", version=5)
    assert world.kinds() == set()


def test_a_payment_that_sold_nothing_is_found(world):
    paying(world)
    world.audit(4, "seat_released", when=60, reason="payment_failed", rid="r3")
    tables_of_a_failure(world, "succeeded")
    assert world.kinds() == {"paid_not_sold"}


@pytest.mark.parametrize("told_status", ["succeeded", "refund_required"])
def test_a_word_to_the_provider_that_does_not_last_is_found(world, told_status):
    paying(world, status=202, body=PENDING)
    word(world, 60, told_status)
    world.audit(4, "seat_released", when=60.05, reason="payment_failed", rid="r4")
    tables_of_a_failure(world)
    assert world.kinds() == {"told_otherwise"}


def test_failed_may_become_succeeded(world):
    paying(world, status=202, body=PENDING)
    word(world, 60, "failed")
    world.audit(4, "seat_released", when=60.05, reason="payment_failed", rid="r4")
    word(world, 70, "succeeded", rid="r5")
    world.audit(5, "seat_held", H2, 70.05, 170, rid="r5")
    world.audit(6, "seat_sold", H2, 70.05, None, rid="r5")
    world.checkout("completed", (H1, H2))
    world.intent("succeeded")
    world.line(H1, "cancelled", 200, checkout=C1)
    world.line(H2, "converted", 170, tickets=[T1], checkout=C1)
    world.seat("sold", H2, "u", version=6)
    assert world.kinds() == set()


def test_a_cancelled_checkout_that_is_sold_is_found(world):
    checkout_begun(world)
    world.call("r4", "checkout_cancel", 20, status=200, checkout=C1, body={"released_seats": [{"seat_id": "A"}]})
    world.audit(3, "seat_released", when=20.05, reason="user_cancelled", rid="r4")
    world.checkout("cancelled")
    world.line(H1, "cancelled", 200, checkout=C1)
    assert world.kinds() == set()
    world.sql("UPDATE seat_holds SET status = 'converted' WHERE org_id = %s", world.org)
    assert "over_but_stands" in world.kinds()


def test_a_cancelled_checkout_that_released_nothing_is_found(world):
    checkout_begun(world)
    world.call("r4", "checkout_cancel", 20, status=200, checkout=C1, body={"released_seats": [{"seat_id": "A"}]})
    world.checkout("cancelled")
    world.line(H1, "active", 200, checkout=C1)
    assert world.kinds() == {"told_without_row"}


def test_a_payment_that_hangs_in_the_end_is_found(world):
    paying(world, status=202, body=PENDING)
    world.checkout("paying")
    world.intent("pending")
    world.line(H1, "active", 200, checkout=C1, paying=True)
    assert world.kinds() == set()
    world.line_of("quiet")
    assert world.kinds() == {"payment_hangs"}


def test_what_a_node_may_not_do_by_itself_is_found(world):
    """Without a request, only the end of a payment."""
    held(world)
    world.audit(2, "seat_released", when=50, reason="payment_failed")
    world.line(H1, "cancelled")
    assert world.kinds() == {"unasked"}


# --- the end -------------------------------------------------------------------------------------------------


def test_a_free_seat_that_nobody_could_get_is_found(world):
    world.line_of("quiet")
    world.seat("available", version=0)
    world.seat("sold", seat="B", version=0)
    world.area(10, 0, 4)
    world.call("r1", "final_hold", 0, status=409, code="seat_contended", seats=["A"])
    assert world.kinds() == {"unsellable"}


def test_seats_and_areas_that_somebody_got_in_the_end_are_fine(world):
    world.line_of("quiet")
    world.area(10, 2, 8)
    world.call("r1", "final_hold", -0.1, 0.1, 201, body=told(areas=[("floor", 2)]), seats=["A"], areas={"floor": 2})
    world.audit(1, "seat_held", rid="r1")
    world.audit(1, "seat_held", rid="r1", area="floor", quantity=2)
    world.line(H1, "active")
    world.line(H1, "active", area="floor", quantity=2)
    world.seat("held", H1, "u")
    assert world.kinds() == set()


def test_a_history_without_its_first_line_is_no_history(world):
    world.lines.clear()
    assert world.kinds() == {"no_history"}


# --- the program ---------------------------------------------------------------------------------------------


def run_program(world, tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(world.lines) + "\n")
    return subprocess.run([sys.executable, "-B", history_checker.__file__, path, "--database-url", world.url],
                          capture_output=True, text=True, check=False)


def test_the_program_says_nothing_of_a_true_history(world, tmp_path):
    still_held(world)
    done = run_program(world, tmp_path)
    assert (done.returncode, done.stdout) == (0, "history: 0 violations\n"), done


def test_the_program_shows_the_lines_that_matter(world, tmp_path):
    world.call("r1", "hold", -0.1, 0.1, 201, body=told(), seats=["A"])
    done = run_program(world, tmp_path)
    assert done.returncode == 1
    assert "told_without_row" in done.stdout and '"rid": "r1"' in done.stdout, done.stdout
