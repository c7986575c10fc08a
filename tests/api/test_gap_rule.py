"""The rule of the single seat (policy no_single_seat_gap): which choices leave a seat alone, and what is said of them.

Houses are drawn as rows of seats: row("A", 6) has A-1 ... A-6. What the rule says of one choice is in
tests/unit/seating; here it is asked of the server, with seats that are held, sold, blocked, removed, and the user's own.
"""

import pytest

from support.client import Client, seat
from support.contract import check_hold, check_problem, quantities, seat_ids, seats_of
from support.tables import area_row, hold_lines, seat_statuses

POLICY = {"no_single_seat_gap": True, "hold_ttl": 300}
FLOOR = {"area_id": "floor", "name": "Floor", "capacity": 5}


def row(name, numbers, section="main", aisles=(), prefix=""):
    """Seats of one row; numbers: how many, or the numbers themselves; behind `aisles` nobody has a neighbour."""
    numbers = range(1, numbers + 1) if isinstance(numbers, int) else numbers
    return [seat(f"{prefix}{name}-{number}", section, name, number,
                 **({"attributes": {"aisle_after": True}} if number in aisles else {})) for number in numbers]


def house(admin, *rows, **more):
    policy = POLICY | more.pop("policy", {})
    return admin.make_event([each for seats in rows for each in seats], policy=policy, **more)


def seats(*numbers, row="A"):
    return [f"{row}-{number}" for number in numbers]


def lonely(answer):
    """The seats that a refusal by the rule names."""
    problem = check_problem(answer, "single_seat_gap")
    assert "as well" in problem["detail"] and "side by side" in problem["detail"]
    assert set(seats_of(problem).values()) == {"single_seat_gap"}
    return list(seats_of(problem))


def floor(quantity):
    return [{"area_id": "floor", "quantity": quantity}]


def patch(client, hold, **change):
    return client.patch(f"/api/holds/{hold['hold_id']}", change)


@pytest.fixture
def six(admin):
    """One row of six."""
    return house(admin, row("A", 6))


# --- a row ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice, left_alone", [
    ([1], []), ([1, 2], []), ([3], []), ([10], []), ([4, 5, 6], []), ([1, 10], []),
    ([2], [1]), ([9], [10]), ([2, 3], [1]), ([2, 9], [1, 10]), ([1, 3], [2]), ([4, 6], [5]), ([2, 4], [1, 3]),
])
def test_a_row_of_ten(client, admin, choice, left_alone):
    event = house(admin, row("A", 10))
    answer = client.hold(event, *seats(*choice))
    if left_alone:
        assert lonely(answer) == seats(*left_alone)
        assert set(seat_statuses_of(client, event)) == {"available"}, "a refusal changes nothing"
    else:
        assert seat_ids(check_hold(answer.expect(201).json)) == seats(*choice)


def seat_statuses_of(client, event):
    return [each["status"] for each in client.seats(event).expect(200).json["seats"]]


def test_a_row_of_three_is_sold_to_a_party_of_two(client, admin):
    for pair in [(1, 2), (2, 3), (1, 3)]:
        client.held(house(admin, row("A", 3)), *seats(*pair))
    event = house(admin, row("A", 3))
    assert lonely(client.hold(event, "A-2")) == seats(1, 3), "one of three can sit at an end"


def test_a_row_is_sold_to_its_last_seat(client, admin):
    event = house(admin, row("A", 7))
    for number in range(1, 8):
        admin.as_user(f"guest-{number}").held(event, f"A-{number}")
    assert set(seat_statuses_of(client, event)) == {"held"}


def test_what_was_alone_before_is_nobodys_fault(client, other, admin):
    event = house(admin, row("A", 6))
    block(admin, event, "A-2")
    hold = other.held(event, "A-3")
    assert lonely(client.hold(event, "A-5")) == seats(4, 6)
    other.cancel(hold["hold_id"]).expect(200)
    assert lonely(client.hold(event, "A-5")) == ["A-6"]
    client.held(event, "A-3", "A-4")
    other.held(event, "A-1")


def block(admin, event, *names):
    admin.post("/api/admin/seats/block", {"event_id": event, "seat_ids": list(names), "reason": "camera"}).expect(200)


def test_one_seat_by_its_own_path(client, six):
    assert lonely(client.hold_one(six, "A-2")) == ["A-1"]
    client.hold_one(six, "A-1").expect(201)


def test_all_rows_of_a_choice_are_judged_and_named(client, admin):
    event = house(admin, row("A", 6), row("B", 6), row("C", 6))
    assert lonely(client.hold(event, "A-2", "B-1", "C-5")) == ["A-1", "C-6"]
    client.held(event, "A-1", "B-1", "C-6")


def test_rows_are_section_and_row(client, admin):
    event = house(admin, row("A", 4, "left", prefix="l"), row("A", 4, "right", prefix="r"))
    client.held(event, "lA-1", "lA-2", "rA-4")
    assert lonely(client.hold(event, "rA-2", cart="other")) == ["rA-1", "rA-3"]


# --- houses ----------------------------------------------------------------------------------------------------


def test_a_theatre_with_a_centre_aisle(client, admin):
    event = house(admin, row("A", 8, aisles=[4]), row("B", 8))
    assert lonely(client.hold(event, "A-3")) == ["A-4"]
    client.held(event, "B-3")
    assert lonely(client.hold(event, "A-4", "A-6")) == ["A-5"]
    client.held(event, "A-4", "A-5", cart="both sides of the aisle")


def test_an_aisle_from_a_file(client, admin):
    event = house(admin, row("Z", 2))
    lines = ["seat_id,section,row,number,attributes"]
    lines += [f"A-{n},main,A,{n}," + ('"{""aisle_after"": true}"' if n == 2 else "") for n in range(1, 7)]
    admin.post(f"/api/events/{event}/seats/import", body="\n".join(lines) + "\n",
               headers={"Content-Type": "text/csv"}).expect(200)
    assert lonely(client.hold(event, "A-1")) == ["A-2"]
    client.held(event, "A-3")


def test_a_break_in_the_numbering(client, admin):
    event = house(admin, row("A", [1, 2, 3, 4, 11, 12, 13, 14]))
    assert lonely(client.hold(event, "A-3")) == ["A-4"]
    client.held(event, "A-4", "A-11")


def test_odd_numbers_left_even_numbers_right(client, admin):
    event = house(admin, row("A", [1, 3, 5, 7, 9]), row("B", [2, 4, 6, 8, 10]))
    assert lonely(client.hold(event, "A-3")) == ["A-1"]
    assert lonely(client.hold(event, "B-8")) == ["B-10"]
    client.held(event, "A-5", "B-6")


def test_letters(client, admin):
    event = house(admin, row("12", "ABCDEF"))
    assert lonely(client.hold(event, "12-E")) == ["12-F"]
    client.held(event, "12-A")


def test_tables(client, admin):
    event = house(admin, *(row(f"table{n}", "ABCD") for n in range(1, 4)))
    client.held(event, *(f"table1-{chair}" for chair in "ABC"))  # no three of four leave nobody alone
    assert lonely(client.hold(event, "table2-A", "table2-C")) == ["table2-B", "table2-D"]
    client.held(event, "table2-A", "table2-B", cart="two")
    admin.as_user().held(event, *(f"table3-{chair}" for chair in "ABCD"))


def test_a_row_with_a_blocked_seat(client, admin):
    event = house(admin, row("A", 6))
    block(admin, event, "A-3")
    assert lonely(client.hold(event, "A-1")) == ["A-2"]
    client.held(event, "A-1", "A-2")
    assert lonely(admin.as_user().hold(event, "A-5")) == ["A-4", "A-6"]
    admin.as_user().held(event, "A-4")


def test_a_row_with_a_sold_seat(client, other, admin):
    event = house(admin, row("A", 6))
    other.confirm(other.held(event, "A-1", "A-2", "A-3")["hold_id"]).expect(200)
    assert lonely(other.hold(event, "A-5")) == ["A-4", "A-6"], "also of one's own: what is sold can't be chosen anew"
    client.held(event, "A-4")


def test_a_row_with_a_seat_that_is_gone(client, admin):
    event = house(admin, row("A", 6))
    admin.delete(f"/api/events/{event}/seats/A-3").expect(200)
    assert lonely(client.hold(event, "A-1")) == ["A-2"]
    client.held(event, "A-4")


def test_a_thousand_seats_in_one_row(client, admin):
    event = house(admin, row("A", 1000))
    assert lonely(client.hold(event, "A-500", "A-502")) == ["A-501"]
    client.held(event, "A-500", "A-501")


# --- the whole that a user has ------------------------------------------------------------------------------------


def test_seats_of_ones_own_are_counted_in(client, six):
    client.held(six, "A-1", "A-2")
    assert lonely(client.hold(six, "A-4", cart="c2")) == ["A-3"]
    client.held(six, "A-3", cart="c2")


def test_own_seats_again_are_the_hold_and_no_new_choice(client, admin):
    event = admin.make_event(row("A", 6), policy=POLICY | {"no_single_seat_gap": False})
    hold = client.held(event, "A-2", "A-5")
    admin.set_event(event, policy=POLICY)
    again = client.hold(event, "A-2", "A-5").expect(200).json
    assert again["hold_id"] == hold["hold_id"] and again["expires_at"] == hold["expires_at"]
    assert client.hold(event, "A-5").expect(200).json["hold_id"] == hold["hold_id"]


def test_a_hold_grows_by_the_rule(client, six, check_audit):
    hold = client.held(six, "A-1", "A-2")
    assert lonely(client.hold(six, "A-2", "A-4")) == ["A-3"]
    assert seat_ids(client.get_hold(hold["hold_id"]).json) == seats(1, 2)
    grown = client.hold(six, "A-2", "A-3").expect(200).json
    assert grown["hold_id"] == hold["hold_id"] and seat_ids(grown) == seats(1, 2, 3)
    assert grown["expires_at"] == hold["expires_at"]
    check_audit(six)


def test_a_hold_grows_by_what_another_hold_has_beside_it(client, six):
    first = client.held(six, "A-1", "A-2")
    second = client.held(six, "A-3", "A-4", cart="c2")
    grown = client.hold(six, "A-2", "A-3", "A-5", "A-6").expect(200).json
    assert grown["hold_id"] == first["hold_id"] and seat_ids(grown) == seats(1, 2, 5, 6)
    assert seat_ids(client.get_hold(second["hold_id"]).json) == seats(3, 4)


def test_a_patch_is_judged_by_what_the_user_then_has(client, six, db, check_audit):
    hold = client.held(six, "A-1", "A-2")
    assert lonely(patch(client, hold, add_seat_ids=["A-4"])) == ["A-3"]
    assert lonely(patch(client, hold, add_seat_ids=["A-3"], remove_seat_ids=["A-1"])) == ["A-1"]
    assert seat_ids(client.get_hold(hold["hold_id"]).json) == seats(1, 2)
    moved = patch(client, hold, add_seat_ids=["A-4"], remove_seat_ids=["A-1", "A-2"]).expect(200).json
    assert seat_ids(moved) == ["A-4"]
    assert [line.status for line in hold_lines(db, hold["hold_id"])] == ["cancelled", "cancelled", "active"]
    check_audit(six)


def test_a_patch_that_only_removes_is_never_judged(client, six):
    hold = client.held(six, "A-1", "A-2", "A-3")
    assert seat_ids(patch(client, hold, remove_seat_ids=["A-2"]).expect(200).json) == seats(1, 3)
    client.delete(f"/api/holds/{hold['hold_id']}/seats/A-1").expect(200)


def test_an_agents_patch_is_judged_by_what_the_owner_has(client, admin, six):
    agent = admin.as_user("agent-1", "agent")
    hold = client.held(six, "A-1", "A-2")
    assert lonely(patch(agent, hold, add_seat_ids=["A-4"])) == ["A-3"]
    assert lonely(agent.hold(six, "A-4", user_id=client.user, cart="c2")) == ["A-3"]
    patch(agent, hold, add_seat_ids=["A-3"]).expect(200)


def test_a_hold_that_replaces_another_gives_its_seats_up(client, admin, check_audit):
    event = house(admin, row("A", 6), policy={"one_hold_per_user": True})
    hold = client.held(event, "A-1", "A-2")
    assert lonely(client.hold(event, "A-2", "A-3")) == ["A-1"]
    assert client.get_hold(hold["hold_id"]).json["status"] == "active"
    assert seat_ids(client.held(event, "A-5", "A-6")) == seats(5, 6)
    assert seat_ids(client.held(event, "A-3", "A-4")) == seats(3, 4)
    assert client.hold(event, "A-3", "A-4").expect(200)
    check_audit(event)


# --- the order of refusals ----------------------------------------------------------------------------------------


def test_every_other_refusal_comes_first(client, other, admin):
    event = house(admin, row("A", 10), policy={"max_seats_per_hold": 3, "max_seats_per_user": 3})
    other.held(event, "A-5", "A-6")
    sold = admin.as_user("early").held(event, "A-7", "A-8")
    admin.as_user("early").confirm(sold["hold_id"]).expect(200)
    assert seats_of(check_problem(client.hold(event, "A-2", "A-5"), "seat_taken")) == {"A-5": "seat_taken"}
    assert seats_of(check_problem(client.hold(event, "A-2", "A-7"), "seat_sold")) == {"A-7": "seat_sold"}
    block(admin, event, "A-10")
    assert seats_of(check_problem(client.hold(event, "A-2", "A-10"), "seat_blocked")) == {"A-10": "seat_blocked"}
    check_problem(client.hold(event, "A-2", "B-1"), "seat_not_found")
    check_problem(client.hold(event, "A-2", "A-3", "A-4", "A-9"), "too_many_seats")
    assert lonely(client.hold(event, "A-2", "A-3")) == ["A-1", "A-4"]
    check_problem(other.hold(event, "A-2", "A-3"), "user_limit")
    admin.set_event(event, status="closed", policy=POLICY)
    check_problem(client.hold(event, "A-2"), "event_closed")
    check_problem(client.hold("no-such-event", "A-2"), "event_not_found")


def test_every_other_refusal_of_a_patch_comes_first(client, other, admin):
    event = house(admin, row("A", 10), policy={"max_seats_per_hold": 3})
    hold = client.held(event, "A-1", "A-2")
    other.held(event, "A-9", "A-10")
    assert seats_of(check_problem(patch(client, hold, add_seat_ids=["A-9"]), "seat_taken")) == {"A-9": "seat_taken"}
    check_problem(patch(client, hold, add_seat_ids=["A-4", "A-6"]), "too_many_seats")
    check_problem(patch(client, hold, add_seat_ids=["A-4", "B-1"]), "seat_not_found")
    check_problem(patch(client, hold, add_seat_ids=["A-4"], remove_seat_ids=["A-7"]), "seat_not_found")
    check_problem(patch(other, hold, add_seat_ids=["A-4"]), "not_hold_owner")
    assert lonely(patch(client, hold, add_seat_ids=["A-4"])) == ["A-3"]


# --- areas in the same hold ---------------------------------------------------------------------------------------


def test_a_hold_of_seats_and_an_area_stands_or_falls_as_one(client, admin, db, org, check_audit):
    event = house(admin, row("A", 6), areas=[FLOOR])
    assert lonely(client.hold(event, "A-2", areas=floor(2))) == ["A-1"]
    assert area_row(db, org, event, "floor").held == 0
    hold = client.hold(event, "A-1", areas=floor(2)).expect(201).json
    assert seat_ids(hold) == ["A-1"] and quantities(hold) == {"floor": 2}
    assert lonely(patch(client, hold, add_seat_ids=["A-3"], areas=floor(1))) == ["A-2"]
    assert area_row(db, org, event, "floor").held == 2
    patch(client, hold, add_seat_ids=["A-2"], areas=floor(1)).expect(200)
    check_audit(event)


def test_a_full_area_comes_before_the_rule(client, admin):
    event = house(admin, row("A", 6), areas=[FLOOR])
    problem = check_problem(client.hold(event, "A-2", areas=floor(6)), "area_full")
    assert problem["areas"] == [{"area_id": "floor", "code": "area_full"}]
    assert "seats" not in problem
    check_problem(client.hold(event, "A-2", areas=[{"area_id": "roof", "quantity": 1}]), "area_not_found")


# --- the policy -----------------------------------------------------------------------------------------------------


def test_shows_have_the_rule_unless_told_otherwise(client, admin):
    show = admin.make_event(row("A", 6), kind="show")
    assert lonely(client.hold(show, "A-2")) == ["A-1"]
    client.held(admin.make_event(row("A", 6)), "A-2")
    client.held(admin.make_event(row("A", 6), kind="show", policy={"no_single_seat_gap": False}), "A-2")


def test_the_rule_is_switched_on_and_off(client, other, admin):
    event = admin.make_event(row("A", 10), policy={"no_single_seat_gap": False})
    client.held(event, "A-2")
    admin.set_event(event, policy={"no_single_seat_gap": True})
    assert lonely(other.hold(event, "A-9")) == ["A-10"]
    other.held(event, "A-10")
    admin.set_event(event, policy={"no_single_seat_gap": False})
    client.held(event, "A-8", cart="c2")


# --- keys, names, tenants ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"areas": floor(1)}], ids=["seats", "seats and an area"])
def test_the_refusal_is_kept_under_a_key(client, other, admin, more):
    event = house(admin, row("A", 6), areas=[FLOOR])
    first = client.hold(event, "A-2", headers={"Idempotency-Key": "k1"}, **more)
    assert lonely(first) == ["A-1"]
    other.held(event, "A-1")
    again = client.hold(event, "A-2", headers={"Idempotency-Key": "k1"}, **more)
    assert (again.status, again.body) == (first.status, first.body)
    client.hold(event, "A-2", headers={"Idempotency-Key": "k2"}, **more).expect(201)


def test_seed_004s_names(client, admin):
    show = admin.make_event(row("A", 6), kind="show")
    body = {"showId": show, "showSeatIds": ["A-2", "A-3"], "customerEmail": "ann@example.org"}
    assert lonely(client.post("/api/holds", body)) == ["A-1"]
    client.post("/api/holds", body | {"showSeatIds": ["A-1", "A-2"]}).expect(201)


def test_rows_of_the_same_name_in_other_events_and_organizations(client, other, admin, node, org, db):
    event, twin = house(admin, row("A", 6)), house(admin, row("A", 6))
    stranger = Client(node, f"{org}-2", "admin-1", "admin")
    stranger.make_event(row("A", 6), event=event, policy=POLICY)
    other.held(event, "A-1")
    client.held(event, "A-2")  # A-1 is taken here
    assert lonely(client.hold(twin, "A-2")) == ["A-1"]
    assert lonely(stranger.hold(event, "A-2")) == ["A-1"]
    assert list(seat_statuses(db, org, event).values()).count("held") == 2


def test_the_problem_has_a_page(client):
    page = client.get("/problems/single_seat_gap").expect(200)
    assert b"leave a single seat alone" in page.body
