"""POST /api/events/{event}/holds/best: which seats are chosen, what is refused, and that nothing else is new."""

import random

import pytest

from support.best import best, best_window, chosen, groups, hall
from support.client import Client, seat
from support.contract import check_hold, check_problem, seat_ids
from support.tables import seat_statuses
from support.waiting import wait_until


def row_of(count, row="A", **more):
    return [seat(f"{row}-{n}", row=row, number=n, **more) for n in range(1, count + 1)]


def take_all(client, event, quantity, **more):
    """Asks until it is refused; the choices, and the refusal."""
    taken = []
    while (answer := best(client, event, quantity, **more)).status == 201:
        taken.append(chosen(answer))
    return taken, answer


# --- a hold as any ------------------------------------------------------------------------------------------


def test_it_is_a_hold_as_any(client, event, db, org, check_audit):
    answer = best(client, event, 3, source="scanner", customer_email="a@example.org").expect(201)
    hold = check_hold(answer.json)
    assert answer.headers["Location"] == f"/api/holds/{hold['hold_id']}"
    assert (hold["event_id"], hold["user_id"], hold["cart_token"]) == (event, client.user, "cart-1")
    assert (hold["status"], hold["source"]) == ("active", "scanner")
    assert seat_ids(hold) == ["A-1", "A-2", "A-3"]
    assert client.get_hold(hold["hold_id"]).expect(200).json["seats"] == hold["seats"]
    assert {one for one, status in seat_statuses(db, org, event).items() if status == "held"} == {"A-1", "A-2", "A-3"}
    client.confirm(hold["hold_id"]).expect(200)
    check_audit(event)


def test_a_second_hold_gets_the_next_ones(client, event):
    """The user's own seats are no answer: who asks for two more gets two more."""
    assert chosen(best(client, event, 2)) == ["A-1", "A-2"]
    assert chosen(best(client, event, 2)) == ["A-3", "A-4"]


def test_what_is_given_back_is_chosen_again(client, event):
    first = best(client, event, 2).expect(201).json
    assert chosen(best(client, event, 2)) == ["A-3", "A-4"]
    client.cancel(first["hold_id"]).expect(200)
    assert chosen(best(client, event, 2)) == ["A-1", "A-2"]


def test_a_hold_that_is_over_is_taken_over(client, other, admin):
    event = admin.make_event(row_of(2), policy={"hold_ttl": 1})
    best(client, event, 2).expect(201)
    wait_until(lambda: best(other, event, 2).status == 201, what="the seats are free again")


def test_an_agent_holds_for_a_user_and_chooses_the_time(admin, event, client):
    agent = admin.as_user("agent-1", "agent")
    hold = best(agent, event, 1, user_id="somebody", ttl_seconds=60).expect(201).json
    assert hold["user_id"] == "somebody" and 55 <= hold["expires_in_seconds"] <= 60
    check_problem(best(client, event, 1, user_id="somebody"), "forbidden")
    check_problem(best(client, event, 1, ttl_seconds=60), "forbidden")


# --- which seats ----------------------------------------------------------------------------------------------


def test_without_coordinates_the_first_in_display_order(admin, client):
    seats = row_of(3, "10") + row_of(11, "2") + [seat("front", section="Arena", row="9", number=1)]
    event = admin.make_event(seats)
    assert seat_ids(best(client, event, 1).expect(201).json) == ["front"]
    taken, refusal = take_all(client, event, 2)
    assert taken == [[f"2-{n}", f"2-{n + 1}"] for n in range(1, 11, 2)] + [["10-1", "10-2"]]
    check_problem(refusal, "no_adjacent_seats")


def test_with_coordinates_the_middle_of_the_front(admin, client):
    event = admin.make_event(hall(3, 9))
    assert chosen(best(client, event, 1)) == ["A-5"]
    assert chosen(best(client, event, 2)) == ["A-3", "A-4"]  # as far as 6 and 7: the first of them
    assert chosen(best(client, event, 3)) == ["A-6", "A-7", "A-8"]
    assert chosen(best(client, event, 3)) == ["B-4", "B-5", "B-6"]


def test_one_seat_without_coordinates_and_they_do_not_count(admin, client):
    event = admin.make_event(hall(2, 9) + [seat("C-1", row="C", number=1)])
    assert chosen(best(client, event, 1)) == ["A-1"]


def test_a_removed_seat_without_coordinates_does_not_stand_in_the_way(admin, client):
    event = admin.make_event(hall(2, 9) + [seat("C-1", row="C", number=1)])
    admin.delete(f"/api/events/{event}/seats/C-1").expect(200)
    admin.put(f"/api/events/{event}", {"name": event, "kind": "event", "status": "on_sale",
                                       "focal_point": {"x": 5, "y": 0}}).expect(200)
    assert chosen(best(client, event, 1)) == ["A-5"]


@pytest.mark.parametrize("number", range(4))
def test_the_least_mean_distance_of_all_that_are_free(admin, client, number):
    """A house at random, sold to the last: each choice is the one that our own reckoning makes."""
    dice = random.Random(number)
    rows, width = dice.randint(2, 5), dice.randint(4, 9)
    seats = hall(rows, width)
    for one in seats:
        one["x"], one["y"] = one["x"] * 0.55, one["y"] * 0.4
    focal = (dice.randint(0, 50) / 10, dice.randint(-20, 20) / 10)
    event = admin.make_event(seats, focal_point={"x": focal[0], "y": focal[1]},
                             policy={"max_seats_per_hold": 10})
    places = {one["seat_id"]: (one["x"], one["y"]) for one in seats}
    free = set(places)
    for _ in range(rows * width):
        quantity = dice.randint(1, 4)
        expected = best_window(places, free, quantity, focal)
        answer = best(client, event, quantity)
        if expected is None:
            check_problem(answer, "sold_out" if len(free) < quantity else "no_adjacent_seats")
        else:
            assert chosen(answer) == expected, (number, quantity, focal)
            free -= set(expected)
    assert len(free) < len(places)


def test_the_same_house_is_sold_in_the_same_order(admin, client):
    orders = []
    for _ in range(2):
        event = admin.make_event(hall(4, 7))
        orders.append(take_all(client, event, 2)[0])
    assert orders[0] == orders[1] and len(orders[0]) == 12


def test_nobody_sits_next_to_somebody_across_an_aisle(admin, client):
    seats = row_of(6)
    seats[1]["attributes"] = {"aisle_after": True}
    event = admin.make_event(seats)
    assert chosen(best(client, event, 3)) == ["A-3", "A-4", "A-5"]
    check_problem(best(client, event, 3), "no_adjacent_seats")
    assert chosen(best(client, event, 2)) == ["A-1", "A-2"]


def test_nobody_sits_next_to_somebody_across_a_break_in_the_numbers(admin, client):
    event = admin.make_event([seat(f"A-{n}", number=n) for n in (1, 2, 4, 5, 6)])
    assert chosen(best(client, event, 3)) == ["A-4", "A-5", "A-6"]


def test_an_aisle_by_csv_and_its_end(admin, client):
    event = admin.make_event(0)
    csv = "seat_id,section,row,number,attributes\n" + "".join(
        f"A-{n},main,A,{n},{attributes}\n" for n, attributes in
        [(1, ""), (2, '"{""aisle_after"": true}"'), (3, ""), (4, '"{""accessible"": true}"')])
    path = f"/api/events/{event}/seats/import"
    admin.post(path, body=csv, headers={"Content-Type": "text/csv"}).expect(200)
    check_problem(best(client, event, 3), "no_adjacent_seats")
    assert chosen(best(client, event, 1, accessible=True)) == ["A-4"]
    admin.post(path, body=csv.replace("true", "false"), headers={"Content-Type": "text/csv"}).expect(200)
    assert chosen(best(client, event, 3)) == ["A-1", "A-2", "A-3"]


# --- wishes ---------------------------------------------------------------------------------------------------


def test_by_section(admin, client):
    event = admin.make_event(row_of(4, "A") + row_of(2, "B", section="Gallery"))
    assert chosen(best(client, event, 2, section="Gallery")) == ["B-1", "B-2"]
    check_problem(best(client, event, 1, section="Gallery"), "sold_out")
    check_problem(best(client, event, 1, section="gallery"), "sold_out")
    assert chosen(best(client, event, 2)) == ["A-1", "A-2"]


def test_by_type(admin, client):
    event = admin.make_event(row_of(2, "A") + row_of(3, "B", type="premium"))
    assert chosen(best(client, event, 2, type="premium")) == ["B-1", "B-2"]
    check_problem(best(client, event, 2, type="premium"), "sold_out")
    check_problem(best(client, event, 1, type="standard"), "sold_out")


def test_by_price(admin, client):
    event = admin.make_event([seat(f"A-{n}", number=n, price=100 * n) for n in range(1, 7)]
                             + [seat("B-1", row="B"), seat("B-2", row="B", number=2)])
    assert chosen(best(client, event, 2, price_min=300, price_max=500)) == ["A-3", "A-4"]
    assert chosen(best(client, event, 1, price_min=300, price_max=500)) == ["A-5"]
    check_problem(best(client, event, 1, price_min=300, price_max=500), "sold_out")
    assert chosen(best(client, event, 1, price_min=600)) == ["A-6"]
    check_problem(best(client, event, 1, price_min=600), "sold_out")  # what has no price costs nothing known
    assert chosen(best(client, event, 2, price_max=250)) == ["A-1", "A-2"]
    check_problem(best(client, event, 1, price_max=250), "sold_out")
    assert chosen(best(client, event, 2)) == ["B-1", "B-2"]


def test_accessible_seats_only_for_those_who_ask_for_them(admin, client):
    seats = row_of(8)
    seats[0]["attributes"] = {"accessible": True}
    seats[1]["type"] = "wheelchair"
    seats[2]["type"] = "accessible"
    seats[4]["attributes"] = {"accessible": "true", "aisle_after": 1}  # neither is true
    event = admin.make_event(seats)
    assert chosen(best(client, event, 2)) == ["A-4", "A-5"]
    assert chosen(best(client, event, 1, type="wheelchair")) == ["A-2"]
    assert chosen(best(client, event, 1, accessible=True)) == ["A-1"]
    assert chosen(best(client, event, 1, accessible=True, type="accessible")) == ["A-3"]
    check_problem(best(client, event, 1, accessible=True), "sold_out")
    assert chosen(best(client, event, 3, accessible=False)) == ["A-6", "A-7", "A-8"]
    check_problem(best(client, event, 1), "sold_out")


def test_apart_only_where_it_has_to_be(admin, client):
    event = admin.make_event(row_of(3, "A") + row_of(3, "B") + row_of(4, "C"))
    assert chosen(best(client, event, 4, adjacent=False)) == ["C-1", "C-2", "C-3", "C-4"]
    check_problem(best(client, event, 4), "no_adjacent_seats")
    assert chosen(best(client, event, 4, adjacent=False)) == ["A-1", "A-2", "A-3", "B-1"]
    check_problem(best(client, event, 4, adjacent=False), "sold_out")


def test_two_groups_before_three(admin, client):
    """Nearer would be single seats of three rows: two groups are better company."""
    seats = [one for one in hall(4, 5) if one["row"] in "CD" or one["number"] in "24"]
    event = admin.make_event(seats, focal_point={"x": 1, "y": 0})
    assert chosen(best(client, event, 5)) == [f"C-{n}" for n in range(1, 6)]
    assert chosen(best(client, event, 3)) == ["D-1", "D-2", "D-3"]
    answer = chosen(best(client, event, 3, adjacent=False))
    assert groups(answer) == 2, answer


def test_whatever_is_left_where_groups_are_not(admin, client):
    event = admin.make_event([seat(f"A-{n}", number=n) for n in (1, 3, 5, 7, 9, 12)])
    # Odd numbers count by two; the 12 among them makes them single seats.
    assert chosen(best(client, event, 4, adjacent=False)) == ["A-1", "A-3", "A-5", "A-7"]
    check_problem(best(client, event, 2), "no_adjacent_seats")
    assert chosen(best(client, event, 2, adjacent=False)) == ["A-9", "A-12"]


# --- the gap rule ---------------------------------------------------------------------------------------------


def test_no_choice_leaves_a_single_seat(admin, client):
    event = admin.make_event(row_of(5) + row_of(4, "B"), kind="show")
    assert chosen(best(client, event, 2)) == ["A-1", "A-2"]
    assert chosen(best(client, event, 3)) == ["A-3", "A-4", "A-5"]
    assert chosen(best(client, event, 1)) == ["B-1"]
    assert chosen(best(client, event, 1)) == ["B-2"]


def test_one_that_would_leave_a_seat_is_passed_over(admin, client):
    event = admin.make_event(row_of(3) + row_of(4, "B"), kind="show")
    assert chosen(best(client, event, 1)) == ["A-1"]
    client.held(event, "B-1")
    # Of either leaves the other alone, and no choice of one avoids that: it may be.
    assert chosen(best(client, event, 1)) == ["A-2"]


def test_a_gap_that_cannot_be_helped_is_no_reason(admin, client):
    event = admin.make_event(row_of(3), kind="show")
    assert chosen(best(client, event, 2)) == ["A-1", "A-2"]
    assert chosen(best(client, event, 1)) == ["A-3"]


def test_the_nearest_that_leaves_no_gap(admin, client):
    event = admin.make_event(hall(1, 8), kind="show", focal_point={"x": 3, "y": 0})
    assert chosen(best(client, event, 1)) == ["A-3"]  # 1 and 2 are left, and five more
    assert chosen(best(client, event, 1)) == ["A-4"]  # the 2 would leave the 1 alone
    # 5 to 7 would leave the 8; 6 to 8 the 5; but so does every three of these rows: then the nearest.
    assert chosen(best(client, event, 2)) == ["A-1", "A-2"]


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field, value", [
    ("quantity", 0), ("quantity", -1), ("quantity", -(10**20)), ("quantity", -1e30), ("quantity", 1.5), ("quantity", "2"), ("quantity", True), ("quantity", [1]),
    ("section", ""), ("section", 1), ("section", "x" * 129), ("section", "a\nb"),
    ("type", ""), ("type", False), ("type", "x" * 129),
    ("adjacent", "yes"), ("adjacent", 1), ("accessible", "no"), ("accessible", 0),
    ("price_min", -1), ("price_min", 1.5), ("price_min", "1"), ("price_max", -1), ("price_max", 10**13),
    ("cart_token", ""), ("cart_token", 1), ("cart_token", "x" * 256),
    ("source", "phone"), ("customer_email", "nobody"), ("user_id", 7), ("ttl_seconds", 0)])
def test_a_wrong_field_is_named(client, event, field, value):
    body = {"quantity": 1, "cart_token": "c"} | {field: value}
    problem = check_problem(client.post(f"/api/events/{event}/holds/best", body), "invalid_field")
    assert [error["field"] for error in problem["errors"]] == [field]


def test_a_bad_user_is_named(client, event):
    problem = check_problem(best(client, event, 1, user_id="a b"), "invalid_id")
    assert [error["field"] for error in problem["errors"]] == ["user_id"]


@pytest.mark.parametrize("field", ["quantity", "cart_token"])
def test_a_missing_field_is_named(client, event, field):
    for value in ({}, {field: None}):
        body = {name: given for name, given in {"quantity": 1, "cart_token": "c"}.items() if name != field} | value
        problem = check_problem(client.post(f"/api/events/{event}/holds/best", body), "missing_field")
        assert [error["field"] for error in problem["errors"]] == [field]


def test_nulls_are_as_if_left_out(client, event):
    nothing = dict.fromkeys(["section", "type", "adjacent", "accessible", "price_min", "price_max", "source",
                             "customer_email", "user_id", "ttl_seconds"])
    assert chosen(best(client, event, 1, **nothing)) == ["A-1"]


def test_a_price_range_has_a_beginning_and_an_end(client, event):
    problem = check_problem(best(client, event, 1, price_min=2, price_max=1), "invalid_field")
    assert [error["field"] for error in problem["errors"]] == ["price_min"]


@pytest.mark.parametrize("body, content_type, code", [
    ("{", "application/json", "malformed_json"), ("[]", "application/json", "invalid_field"),
    ("", "application/json", "malformed_json"), ("{}", "text/plain", "unsupported_media_type")])
def test_a_body_that_is_none(client, event, body, content_type, code):
    check_problem(client.post(f"/api/events/{event}/holds/best", body=body,
                              headers={"Content-Type": content_type}), code)


def test_who_asks_and_of_what(node, client, event):
    check_problem(Client(node, client.org, token="").post(f"/api/events/{event}/holds/best", {}), "unauthenticated")
    check_problem(best(client, "nowhere", 1), "event_not_found")
    client.get(f"/api/events/{event}/holds/best").expect(405)


def test_of_another_organization(node, event):
    check_problem(best(Client(node, "org-elsewhere", "user-1"), event, 1), "event_not_found")


def test_more_than_a_hold_may_have(admin, client):
    event = admin.make_event(20, policy={"max_seats_per_hold": 4})
    for quantity in (5, 501, 10**6, 10**15, 2**63, 99999999999999999999, 10**100, 1e30):
        check_problem(best(client, event, quantity), "too_many_seats")
    assert len(chosen(best(client, event, 4))) == 4


def test_more_than_a_user_may_have(admin, client, other):
    event = admin.make_event(20, policy={"max_seats_per_user": 3})
    check_problem(best(client, event, 4), "user_limit")
    best(client, event, 2).expect(201)
    check_problem(best(client, event, 2), "user_limit")
    assert chosen(best(other, event, 2)) == ["A-3", "A-4"]


@pytest.mark.parametrize("status", ["scheduled", "closed", "cancelled"])
def test_an_event_that_is_not_on_sale(admin, client, status):
    event = admin.make_event(2, status=status)
    for quantity in (1, 3):
        check_problem(best(client, event, quantity), "event_closed")
    agent = best(admin.as_user("agent-1", "agent"), event, 1)
    if status == "cancelled":
        check_problem(agent, "event_closed")
    else:
        agent.expect(201)


def test_a_close_counts_for_all_that_begins_after_it(admin, client, start_node):
    peer = start_node()
    event = admin.make_event(10)
    best(client, event, 1).expect(201)
    best(client.at(peer), event, 1).expect(201)
    admin.set_event(event, status="closed")
    check_problem(best(client, event, 1), "event_closed")
    check_problem(best(client.at(peer), event, 1), "event_closed")


def test_an_event_without_seats(admin, client):
    check_problem(best(client, admin.make_event(0), 1), "sold_out")


def test_enough_seats_but_apart_and_not_enough(admin, client):
    event = admin.make_event(3)
    client.held(event, "A-2")
    check_problem(best(client, event, 2), "no_adjacent_seats")
    check_problem(best(client, event, 3), "sold_out")
    assert chosen(best(client, event, 2, adjacent=False)) == ["A-1", "A-3"]
    check_problem(best(client, event, 1), "sold_out")


def test_blocked_seats_are_not_free(admin, client):
    event = admin.make_event(3)
    admin.post("/api/admin/seats/block", {"event_id": event, "seat_ids": ["A-1"], "reason": "camera"}).expect(200)
    assert chosen(best(client, event, 2)) == ["A-2", "A-3"]


def test_a_flight_has_one_hold_a_user(admin, client):
    event = admin.make_event(6, kind="flight")
    first = best(client, event, 2).expect(201).json
    second = best(client, event, 2).expect(201).json
    assert seat_ids(second) == ["A-3", "A-4"]
    assert client.get_hold(first["hold_id"]).json["status"] == "cancelled"


# --- an Idempotency-Key ----------------------------------------------------------------------------------------------


def test_the_same_key_gets_the_same_seats(client, event):
    key = {"Idempotency-Key": "k-1"}
    first = best(client, event, 2, headers=key).expect(201)
    again = best(client, event, 2, headers=key).expect(201)
    assert again.body == first.body
    assert chosen(best(client, event, 2)) == ["A-3", "A-4"]
    check_problem(best(client, event, 3, headers=key), "idempotency_key_reused")


def test_the_same_key_is_told_the_same_though_all_is_sold_meanwhile(admin, client):
    event = admin.make_event(2)
    key = {"Idempotency-Key": "k-1"}
    first = best(client, event, 2, headers=key).expect(201)
    assert best(client, event, 2, headers=key).expect(201).body == first.body
    check_problem(best(client, event, 1), "sold_out")


@pytest.mark.parametrize("quantity, code", [(2, "no_adjacent_seats"), (3, "sold_out"), (99, "too_many_seats")])
def test_a_refusal_is_kept_under_its_key(admin, client, quantity, code):
    event = admin.make_event(3)
    hold = client.held(event, "A-2")
    key = {"Idempotency-Key": "k-1"}
    first = best(client, event, quantity, headers=key)
    check_problem(first, code)
    client.cancel(hold["hold_id"]).expect(200)
    assert best(client, event, quantity, headers=key).body == first.body
    assert chosen(best(client, event, 1)) == ["A-1"]


# --- the focal point ---------------------------------------------------------------------------------------------------


def test_the_focal_point_is_shown_kept_and_taken_away(admin, client):
    event = admin.make_event(hall(3, 9))
    path = f"/api/events/{event}"
    assert client.get(path).json["focal_point"] is None
    version = client.get(path).json["version"]
    assert admin.set_event(event, focal_point={"x": 0.1, "y": -2.5}).json["focal_point"] == {"x": 0.1, "y": -2.5}
    assert client.get(path).json["focal_point"] == {"x": 0.1, "y": -2.5}
    assert client.get("/api/events").json["events"][0]["focal_point"] == {"x": 0.1, "y": -2.5}
    again = admin.set_event(event).json  # not named: as it was
    assert (again["focal_point"], again["version"]) == ({"x": 0.1, "y": -2.5}, version + 1)
    assert admin.set_event(event, focal_point=None).json["focal_point"] is None
    assert client.get(path).json["focal_point"] is None


@pytest.mark.parametrize("value, field", [
    (1, "focal_point"), ([1, 2], "focal_point"), ("x", "focal_point"),
    ({"x": "1", "y": 2}, "focal_point.x"), ({"x": 1, "y": 1e10}, "focal_point.y"), ({"x": 1, "y": [2]}, "focal_point.y")])
def test_a_focal_point_that_is_none(admin, event, value, field):
    answer = admin.put(f"/api/events/{event}", {"name": event, "kind": "event", "status": "on_sale",
                                                "focal_point": value})
    assert [error["field"] for error in check_problem(answer, "invalid_field")["errors"]] == [field]


def test_a_focal_point_needs_both(admin, event):
    answer = admin.put(f"/api/events/{event}", {"name": event, "kind": "event", "status": "on_sale",
                                                "focal_point": {"x": 1}})
    assert answer.status == 400 and [error["field"] for error in answer.json["errors"]] == ["focal_point.y"]


def test_a_focal_point_that_moves_counts_at_once(admin, client):
    event = admin.make_event(hall(3, 9))
    assert chosen(best(client, event, 1)) == ["A-5"]
    admin.set_event(event, focal_point={"x": 9, "y": 4})
    assert chosen(best(client, event, 1)) == ["C-9"]
    admin.set_event(event, focal_point=None)
    assert chosen(best(client, event, 2)) == ["A-3", "A-4"]


def test_a_focal_point_that_moves_counts_on_the_other_node(admin, client, start_node):
    peer = start_node()
    event = admin.make_event(hall(3, 9))
    assert chosen(best(client.at(peer), event, 1)) == ["A-5"]
    admin.set_event(event, focal_point={"x": 9, "y": 4})
    chosen(best(client, event, 1))
    # The peer hears of it within a second; what it chooses until then is free all the same.
    def from_there():
        answer = best(client.at(peer), event, 1).expect(201).json
        client.cancel(answer["hold_id"]).expect(200)
        return seat_ids(answer) in (["C-8"], ["B-9"])

    wait_until(from_there, what="the peer chooses by the new point")


def test_seats_that_are_added_are_chosen(admin, client):
    event = admin.make_event(2)
    best(client, event, 2).expect(201)
    check_problem(best(client, event, 2), "sold_out")
    admin.set_event(event, seats=row_of(2, "B"))
    assert chosen(best(client, event, 2)) == ["B-1", "B-2"]


# --- nodes --------------------------------------------------------------------------------------------------------------


def test_what_the_other_node_sells_is_not_chosen_here(client, other, admin, start_node, prove):
    peer = start_node()
    event = admin.make_event(40)
    holds = []
    for _ in range(10):
        holds.append(best(client, event, 2).expect(201).json)
        holds.append(best(other.at(peer), event, 2).expect(201).json)
    assert len({one["seat_id"] for hold in holds for one in hold["seats"]}) == 40
    for where in (client, client.at(peer)):
        check_problem(best(where, event, 1), "sold_out")
    prove(event, holds)


def test_a_node_that_comes_later_knows_what_is_sold(client, admin, start_node):
    event = admin.make_event(4)
    best(client, event, 2).expect(201)
    peer = start_node()
    assert chosen(best(client.at(peer), event, 2)) == ["A-3", "A-4"]
    check_problem(best(client.at(peer), event, 1), "sold_out")


def test_without_redis_no_is_only_said_of_what_postgres_has(client, admin, start_node, own_redis):
    """Two nodes that hear nothing of each other: each reads the house anew before it says that nothing is left."""
    one, two = start_node(redis_url=own_redis.url()), start_node(redis_url=own_redis.url())
    event = admin.make_event(6)
    own_redis.kill()
    assert chosen(best(client.at(one), event, 2)) == ["A-1", "A-2"]
    assert chosen(best(client.at(two), event, 2)) == ["A-3", "A-4"]
    hold = best(client.at(one), event, 2).expect(201).json
    check_problem(best(client.at(two), event, 2), "sold_out")
    client.at(one).cancel(hold["hold_id"]).expect(200)
    assert chosen(best(client.at(two), event, 2)) == ["A-5", "A-6"]
