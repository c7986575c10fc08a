"""The checker finds what it is there to find: each test plants one fault into a story that was clean."""

import datetime
import uuid

import psycopg2
import pytest

from checker import audit_checker
from support import servers

# The columns that the checker reads, made by hand: the checker must not depend on the server's schema being right.
TABLES = """
CREATE TABLE seats (org_id text, event_id text, seat_id text, version bigint, status text, hold_id uuid,
                    user_id text, held_until timestamptz, in_payment boolean DEFAULT false);
CREATE TABLE seat_holds (org_id text, event_id text, seat_id text, area_id text, quantity int DEFAULT 1, hold_id uuid,
                         user_id text, status text, held_until timestamptz, in_payment boolean DEFAULT false);
CREATE TABLE areas (org_id text, event_id text, area_id text, version bigint, capacity int, held int, sold int);
CREATE TABLE audit_log (id bigint GENERATED ALWAYS AS IDENTITY, org_id text, event_id text, seat_id text, area_id text,
                        version bigint, action text, quantity int, hold_id uuid, user_id text, at timestamptz,
                        held_until timestamptz, reason text, request_id text);
"""
H1, H2 = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
NOON = datetime.datetime(2030, 1, 1, 12, tzinfo=datetime.timezone.utc)


def at(seconds):
    return None if seconds is None else NOON + datetime.timedelta(seconds=seconds)


@pytest.fixture(scope="module")
def connection(postgres_url):
    name = f"checker_{uuid.uuid4().hex[:8]}"
    connection = psycopg2.connect(servers.make_database(postgres_url, name))
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
    yield connection
    connection.close()
    outside = psycopg2.connect(postgres_url)
    outside.autocommit = True
    with outside.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")
    outside.close()


class World:
    """Writes stories; each test has an organization of its own."""

    def __init__(self, connection):
        self.connection = connection
        self.org = uuid.uuid4().hex

    def sql(self, text, *values):
        with self.connection.cursor() as cursor:
            cursor.execute(text, values)

    def audit(self, version, action, hold=None, when=0, until=None, user="u", reason=None, seat="A", rid=None):
        self.sql("INSERT INTO audit_log (org_id, event_id, seat_id, version, action, hold_id, user_id, at, held_until,"
                 " reason, request_id) VALUES (%s, 'e', %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                 self.org, seat, version, action, hold, user if hold else None, at(when), at(until), reason, rid)

    def seat(self, version, status="available", hold=None, until=None, user="u", seat="A", paying=False):
        self.sql("INSERT INTO seats VALUES (%s, 'e', %s, %s, %s, %s, %s, %s, %s)",
                 self.org, seat, version, status, hold, user if hold else None, at(until), paying)

    def line(self, hold, status, until=100, user="u", seat="A", area=None, quantity=1, paying=False):
        self.sql("INSERT INTO seat_holds VALUES (%s, 'e', %s, %s, %s, %s, %s, %s, %s, %s)",
                 self.org, seat, area, quantity, hold, user, status, at(until), paying)

    def area(self, version, capacity, held, sold):
        self.sql("INSERT INTO areas VALUES (%s, 'e', 'floor', %s, %s, %s, %s)", self.org, version, capacity, held, sold)

    def area_line(self, hold, status, quantity):
        self.line(hold, status, seat=None, area="floor", quantity=quantity)

    def area_audit(self, version, action, hold, quantity, when=0, until=100, reason=None):
        self.sql("INSERT INTO audit_log (org_id, event_id, area_id, version, action, hold_id, quantity, user_id, at,"
                 " held_until, reason) VALUES (%s, 'e', 'floor', %s, %s, %s, %s, 'u', %s, %s, %s)",
                 self.org, version, action, hold, quantity, at(when), at(until), reason)

    def kinds(self):
        return {violation.kind for violation in audit_checker.check_event(self.connection, self.org, "e")}


@pytest.fixture
def world(connection):
    return World(connection)


def test_a_seat_that_nothing_happened_to_is_clean(world):
    world.seat(0)
    assert world.kinds() == set()


def test_a_whole_life_with_takeover_extension_transfer_and_sale_is_clean(world):
    world.audit(1, "seat_added")
    world.audit(2, "seat_held", H1, 0, 100)
    world.audit(3, "hold_extended", H1, 50, 200)
    world.audit(4, "hold_changed", H1, 60, 200)
    world.audit(5, "seat_released", H1, 200, reason="ttl_expired")
    world.audit(6, "seat_held", H2, 200, 300, user="v")
    world.audit(7, "hold_transferred", H2, 210, 300, user="w")
    world.audit(8, "seat_sold", H2, 299, user="w")
    world.seat(8, "sold", H2, user="w")
    world.line(H1, "expired", 200)
    world.line(H2, "converted", 300, user="w")
    assert world.kinds() == set()


def test_a_held_seat_and_its_neighbour_that_was_blocked_and_removed_are_clean(world):
    world.audit(1, "seat_held", H1, 0, 100)
    world.seat(1, "held", H1, 100)
    world.line(H1, "active")
    for version, action in enumerate(("seat_blocked", "seat_unblocked", "seat_changed", "seat_removed", "seat_added"), 1):
        world.audit(version, action, seat="B")
    world.seat(5, seat="B")
    assert world.kinds() == set()


def held_until_100(world):
    """The beginning of most faults: H1 has the seat, from 0 until 100."""
    world.audit(1, "seat_held", H1, 0, 100)


@pytest.mark.parametrize("version, kind", [(3, "version_gap"), (1, "version_double")])
def test_versions_with_a_gap_or_a_double_are_found(world, version, kind):
    held_until_100(world)
    world.audit(version, "seat_released", H1, 10, reason="user_cancelled")
    world.seat(version)
    world.line(H1, "cancelled")
    assert kind in world.kinds()


def test_a_second_hold_in_the_life_of_the_first_is_found(world):
    held_until_100(world)
    world.audit(2, "seat_held", H2, 50, 150)
    world.seat(2, "held", H2, 150)
    world.line(H2, "active", 150)
    world.line(H1, "expired")
    assert "overlap" in world.kinds()


def test_a_hold_on_a_sold_seat_is_found(world):
    held_until_100(world)
    world.audit(2, "seat_sold", H1, 50)
    world.audit(3, "seat_held", H2, 60, 160)
    world.seat(3, "held", H2, 160)
    world.line(H1, "converted")
    world.line(H2, "active", 160)
    assert "overlap" in world.kinds()


def test_a_hold_that_begins_before_the_one_before_it_ended_is_found(world):
    held_until_100(world)
    world.audit(2, "seat_released", H1, 50, reason="user_cancelled")
    world.audit(3, "seat_held", H2, 40, 140)
    world.seat(3, "held", H2, 140)
    world.line(H1, "cancelled")
    world.line(H2, "active", 140)
    assert world.kinds() == {"time_backwards"}


@pytest.mark.parametrize("action, until", [("seat_sold", None), ("hold_extended", 300), ("hold_transferred", 100),
                                           ("hold_changed", 100)])
def test_a_grant_at_or_after_the_end_is_found(world, action, until):
    held_until_100(world)
    world.audit(2, action, H1, 100, until)
    sold = action == "seat_sold"
    world.seat(2, "sold" if sold else "held", H1, until)
    world.line(H1, "converted" if sold else "active", until)
    assert world.kinds() == {"after_end"}


def test_an_expiry_before_the_end_is_found(world):
    held_until_100(world)
    world.audit(2, "seat_released", H1, 99, reason="ttl_expired")
    world.seat(2)
    world.line(H1, "expired")
    assert world.kinds() == {"expired_early"}


def test_a_cancellation_of_a_hold_that_was_over_is_found(world):
    held_until_100(world)
    world.audit(2, "seat_released", H1, 101, reason="user_cancelled")
    world.seat(2)
    world.line(H1, "cancelled")
    assert world.kinds() == {"cancelled_late"}


@pytest.mark.parametrize("reason", ["ttl_expired", "admin_override", "payment_failed", "unblocked"])
def test_a_sold_seat_that_nobody_gave_back_is_found(world, reason):
    held_until_100(world)
    world.audit(2, "seat_sold", H1, 50)
    world.audit(3, "seat_released", H1, 200, reason=reason)
    world.seat(3)
    world.line(H1, "expired")
    assert world.kinds() == {"sold_released"}


def changed_seats(world, rid="r2", user="u"):
    """u has bought A, and buys B in its place."""
    held_until_100(world)
    world.audit(2, "seat_sold", H1, 50, rid="r1")
    world.audit(1, "seat_held", H2, 60, 160, seat="B", user=user)
    world.audit(2, "seat_sold", H2, 70, seat="B", user=user, rid=rid)
    world.audit(3, "seat_released", H1, 70, reason="replaced", rid="r2")
    world.seat(2, "sold", H2, seat="B", user=user)
    world.line(H1, "cancelled")
    world.line(H2, "converted", 160, seat="B", user=user)


def test_a_sold_seat_that_another_takes_the_place_of_is_clean(world):
    changed_seats(world)
    world.audit(4, "seat_held", H2, 80, 180, user="v")
    world.seat(4, "held", H2, 180, user="v")
    world.line(H2, "active", 180, user="v")
    assert world.kinds() == set()


def test_a_sold_seat_that_is_returned_is_clean(world):
    held_until_100(world)
    world.audit(2, "seat_sold", H1, 50)
    world.audit(3, "seat_released", H1, 5000, reason="user_cancelled")
    world.seat(3)
    world.line(H1, "cancelled")
    assert world.kinds() == set()


@pytest.mark.parametrize("sale", [{"rid": "r3"}, {"user": "v"}])
def test_a_sold_seat_that_nothing_takes_the_place_of_is_found(world, sale):
    changed_seats(world, **sale)
    world.seat(3)
    assert world.kinds() == {"replaced_by_nothing"}


def test_a_line_that_is_sold_after_its_seat_was_given_back_is_found(world):
    held_until_100(world)
    world.audit(2, "seat_sold", H1, 50)
    world.audit(3, "seat_released", H1, 60, reason="user_cancelled")
    world.seat(3)
    world.line(H1, "converted")
    assert world.kinds() == {"line_status"}


def test_a_sold_seat_given_back_by_another_hold_is_found(world):
    held_until_100(world)
    world.audit(2, "seat_sold", H1, 50)
    world.audit(3, "seat_released", H2, 60, reason="user_cancelled")
    world.seat(3)
    world.line(H1, "cancelled")
    assert world.kinds() == {"wrong_hold"}


def test_another_holds_sale_or_release_is_found(world):
    held_until_100(world)
    world.audit(2, "seat_released", H2, 50, reason="user_cancelled")
    world.seat(2)
    world.line(H1, "cancelled")
    assert world.kinds() == {"wrong_hold"}


def test_an_extension_that_shortens_is_found(world):
    held_until_100(world)
    world.audit(2, "hold_extended", H1, 10, 90)
    world.seat(2, "held", H1, 90)
    world.line(H1, "active", 90)
    assert world.kinds() == {"shortened"}


@pytest.mark.parametrize("action", ["seat_sold", "hold_extended", "seat_released", "seat_unblocked"])
def test_a_step_that_a_free_seat_can_not_make_is_found(world, action):
    world.audit(1, action, H1, 0, 100, reason="user_cancelled")
    world.seat(1)
    assert "illegal_step" in world.kinds()


def test_a_blocked_held_seat_is_found(world):
    held_until_100(world)
    world.audit(2, "seat_blocked", None, 10)
    world.seat(2, "blocked")
    assert "illegal_step" in world.kinds()


@pytest.mark.parametrize("row", [
    {"status": "available"}, {"status": "sold", "hold": H1}, {"status": "held", "hold": H2, "until": 100},
    {"status": "held", "hold": H1, "until": 101}, {"status": "held", "hold": H1, "until": 100, "user": "x"},
    {"version": 2, "status": "held", "hold": H1, "until": 100}])
def test_a_seat_row_that_differs_from_its_story_is_found(world, row):
    held_until_100(world)
    world.seat(**({"version": 1} | row))
    world.line(H1, "active")
    assert "final_state" in world.kinds()


def test_a_change_without_an_audit_row_is_found(world):
    world.seat(1)
    assert world.kinds() == {"final_state"}


def test_an_audit_row_without_a_seat_is_found(world):
    held_until_100(world)
    assert world.kinds() == {"seat_missing"}


def test_a_held_seat_without_its_line_is_found(world):
    held_until_100(world)
    world.seat(1, "held", H1, 100)
    assert world.kinds() == {"line_missing", "line_status"}


def test_a_second_active_line_is_found(world):
    held_until_100(world)
    world.seat(1, "held", H1, 100)
    world.line(H1, "active")
    world.line(H2, "active")
    assert world.kinds() == {"two_active", "line_unknown"}


def test_an_active_line_of_a_free_seat_is_found(world):
    held_until_100(world)
    world.audit(2, "seat_released", H1, 50, reason="user_cancelled")
    world.seat(2)
    world.line(H1, "active")
    assert world.kinds() == {"line_status"}


def test_a_line_with_another_end_or_owner_is_found(world):
    held_until_100(world)
    world.seat(1, "held", H1, 100)
    world.line(H1, "active", 90)
    assert world.kinds() == {"line_differs"}


def test_a_hold_that_took_a_seat_twice_has_a_line_for_each_time(world):
    held_until_100(world)
    world.audit(2, "seat_released", H1, 10, reason="user_cancelled")
    world.audit(3, "seat_held", H1, 20, 100)
    world.seat(3, "held", H1, 100)
    world.line(H1, "cancelled")
    world.line(H1, "active")
    assert world.kinds() == set()


def test_a_line_for_a_take_that_never_was_is_found(world):
    held_until_100(world)
    world.seat(1, "held", H1, 100)
    world.line(H1, "active")
    world.line(H1, "cancelled")
    assert world.kinds() == {"line_unknown"}


# --- payments ------------------------------------------------------------------------------------------------


def in_payment_from_50(world):
    held_until_100(world)
    world.audit(2, "payment_started", H1, 50, 100)


def test_a_sale_and_a_decline_past_the_end_are_clean_when_the_payment_began_before(world):
    in_payment_from_50(world)
    world.audit(3, "seat_sold", H1, 150)
    world.seat(3, "sold", H1)
    world.line(H1, "converted")
    world.audit(1, "seat_held", H2, 0, 100, seat="B")
    world.audit(2, "payment_started", H2, 99, 100, seat="B")
    world.audit(3, "seat_released", H2, 150, reason="payment_failed", seat="B")
    world.seat(3, seat="B")
    world.line(H2, "cancelled", seat="B")
    assert world.kinds() == set()


def test_a_payment_that_was_stopped_leaves_the_hold_as_it_was(world):
    in_payment_from_50(world)
    world.audit(3, "payment_stopped", H1, 60, 100)
    world.audit(4, "hold_extended", H1, 70, 200)
    world.audit(5, "payment_started", H1, 80, 200)
    world.seat(5, "held", H1, 200, paying=True)
    world.line(H1, "active", 200, paying=True)
    assert world.kinds() == set()


@pytest.mark.parametrize("action, reason", [
    ("seat_released", "ttl_expired"), ("seat_released", "user_cancelled"), ("seat_released", "admin_override"),
    ("hold_extended", None), ("hold_changed", None), ("hold_transferred", None), ("payment_started", None)])
def test_what_a_payment_keeps_from_happening_is_found(world, action, reason):
    in_payment_from_50(world)
    world.audit(3, action, H1, 60, 200 if action == "hold_extended" else 100, reason=reason)
    released = action == "seat_released"
    world.seat(3, *([] if released else ["held", H1, 200 if action == "hold_extended" else 100]))
    world.line(H1, "cancelled" if released else "active")
    assert "in_payment" in world.kinds()


def test_a_seat_in_payment_that_is_taken_over_is_found(world):
    in_payment_from_50(world)
    world.audit(3, "seat_released", H1, 101, reason="ttl_expired")
    world.audit(4, "seat_held", H2, 101, 200)
    world.seat(4, "held", H2, 200)
    world.line(H1, "expired")
    world.line(H2, "active", 200)
    assert world.kinds() == {"in_payment"}


def test_a_payment_that_begins_at_the_end_is_found(world):
    held_until_100(world)
    world.audit(2, "payment_started", H1, 100, 100)
    world.seat(2, "held", H1, 100, paying=True)
    world.line(H1, "active", paying=True)
    assert world.kinds() == {"after_end"}


def test_a_payment_that_stops_and_never_began_is_found(world):
    held_until_100(world)
    world.audit(2, "payment_stopped", H1, 50, 100)
    world.seat(2, "held", H1, 100)
    world.line(H1, "active")
    assert world.kinds() == {"illegal_step"}


def test_a_mark_that_the_story_does_not_have_is_found(world):
    held_until_100(world)
    world.seat(1, "held", H1, 100, paying=True)
    world.line(H1, "active", paying=True)
    assert world.kinds() == {"final_state"}


def test_a_line_without_the_mark_of_its_seat_is_found(world):
    in_payment_from_50(world)
    world.seat(2, "held", H1, 100, paying=True)
    world.line(H1, "active")
    assert world.kinds() == {"line_differs"}


def test_a_payment_of_a_part_of_an_area_is_clean_past_its_end(world):
    world.area_audit(1, "seat_held", H1, 3)
    world.area_audit(2, "seat_held", H2, 2)
    world.area_audit(3, "payment_started", H1, 3, 50)
    world.area_audit(4, "payment_started", H2, 2, 60)
    world.area_audit(5, "seat_sold", H1, 3, 150)
    world.area_audit(6, "seat_released", H2, 2, 150, reason="payment_failed")
    world.area(6, 10, 0, 3)
    world.area_line(H1, "converted", 3)
    assert world.kinds() == set()


@pytest.mark.parametrize("action, reason", [("seat_released", "ttl_expired"), ("hold_changed", None),
                                            ("payment_started", None)])
def test_what_a_payment_keeps_from_happening_to_a_part_of_an_area_is_found(world, action, reason):
    world.area_audit(1, "seat_held", H1, 3)
    world.area_audit(2, "payment_started", H1, 3, 50)
    world.area_audit(3, action, H1, 3, 150 if reason else 60, reason=reason)
    held = 0 if reason else 3
    world.area(3, 10, held, 0)
    if held:
        world.area_line(H1, "active", 3)
    assert "in_payment" in world.kinds()


# --- areas ---------------------------------------------------------------------------------------------------


def an_area_of_ten(world):
    """Three for H1, who buys them; four for H2, who keeps two of them."""
    world.area_audit(1, "seat_held", H1, 3)
    world.area_audit(2, "seat_held", H2, 4)
    world.area_audit(3, "hold_changed", H2, 2, 10)
    world.area_audit(4, "hold_extended", H2, 2, 20, 200)
    world.area_audit(5, "seat_sold", H1, 3, 30)


def test_an_area_whose_counts_are_what_was_taken_is_clean(world):
    an_area_of_ten(world)
    world.area(5, 10, 2, 3)
    world.area_line(H2, "active", 2)
    world.area_line(H1, "converted", 3)
    assert world.kinds() == set()


def test_a_part_of_an_area_that_is_returned_is_clean(world):
    an_area_of_ten(world)
    world.area_audit(6, "seat_released", H1, 3, 500, None, reason="user_cancelled")
    world.area(6, 10, 2, 0)
    world.area_line(H2, "active", 2)
    world.area_line(H1, "cancelled", 3)
    assert world.kinds() == set()


@pytest.mark.parametrize("quantity, reason, kind", [(2, "user_cancelled", "wrong_quantity"),
                                                    (3, "ttl_expired", "sold_released")])
def test_a_part_of_an_area_that_is_returned_wrongly_is_found(world, quantity, reason, kind):
    an_area_of_ten(world)
    world.area_audit(6, "seat_released", H1, quantity, 500, None, reason=reason)
    world.area(6, 10, 2, 0)
    world.area_line(H2, "active", 2)
    assert world.kinds() == {kind}


def test_an_area_nobody_took_of_is_clean(world):
    world.area(1, 10, 0, 0)
    world.area_audit(1, "area_changed", None, 10)
    assert world.kinds() == set()


def test_an_area_whose_counts_are_not_the_sums_of_its_lines_is_found(world):
    an_area_of_ten(world)
    world.area(5, 10, 2, 3)
    world.area_line(H2, "active", 1)
    world.area_line(H1, "converted", 3)
    assert world.kinds() == {"area_counts"}


def test_an_area_whose_counts_are_not_what_was_taken_is_found(world):
    an_area_of_ten(world)
    world.area(5, 10, 4, 3)
    world.area_line(H2, "active", 4)
    world.area_line(H1, "converted", 3)
    assert world.kinds() == {"final_state"}


def test_an_oversold_area_is_found(world):
    an_area_of_ten(world)
    world.area(5, 4, 2, 3)
    world.area_line(H2, "active", 2)
    world.area_line(H1, "converted", 3)
    assert world.kinds() == {"area_oversold"}


@pytest.mark.parametrize("version, action, hold, quantity, when, reason, kind", [
    (2, "seat_sold", H1, 3, 100, None, "after_end"),
    (2, "seat_sold", H1, 2, 50, None, "wrong_quantity"),
    (2, "seat_sold", H2, 3, 50, None, "illegal_step"),
    (2, "seat_held", H1, 3, 50, None, "illegal_step"),
    (2, "seat_released", H1, 3, 99, "ttl_expired", "expired_early"),
    (3, "seat_released", H1, 3, 50, "user_cancelled", "version_gap"),
    (2, "seat_blocked", H1, 3, 50, None, "unknown_action")])
def test_a_step_of_an_area_that_can_not_be_is_found(world, version, action, hold, quantity, when, reason, kind):
    world.area_audit(1, "seat_held", H1, 3)
    world.area_audit(version, action, hold, quantity, when, reason=reason)
    world.area(version, 10, 0, 0)
    assert kind in world.kinds()


def test_faults_of_another_organization_are_its_own(world, connection):
    held_until_100(world)
    assert World(connection).kinds() == set()


def test_seats_are_told_apart_in_byte_order(world):
    for seat in ("B-1", "A_1", "a-1", "A-1", "A-10", "A.1"):
        world.audit(1, "seat_held", H1, 0, 100, seat=seat)
        world.seat(1, "held", H1, 100, seat=seat)
        world.line(H1, "active", seat=seat)
    assert world.kinds() == set()
