"""Limits of a policy: seats a hold, seats a user, one hold a user."""

import pytest

from support.contract import check_problem, seat_ids, versions
from support.tables import actions, area_row, audit, hold_lines, seat_row, seat_statuses
from support.waiting import at_once, wait_until

FLOOR = {"area_id": "floor", "name": "Floor", "capacity": 50}


def floor(quantity):
    return [{"area_id": "floor", "quantity": quantity}]


# --- seats a hold --------------------------------------------------------------------------------------------


def test_8_seats_a_hold_unless_the_policy_says_so(client, admin):
    event = admin.make_event(20)
    check_problem(client.hold(event, *(f"A-{n}" for n in range(1, 10))), "too_many_seats")
    client.held(event, *(f"A-{n}" for n in range(1, 9)))
    larger = admin.make_event(20, policy={"max_seats_per_hold": 12})
    client.held(larger, *(f"A-{n}" for n in range(1, 13)))
    check_problem(client.hold(larger, "A-13", *(f"A-{n}" for n in range(1, 13))), "too_many_seats")


def test_growing_counts_the_whole(client, admin):
    event = admin.make_event(10, areas=[FLOOR], policy={"max_seats_per_hold": 3})
    hold = client.hold(event, "A-1", areas=floor(1)).expect(201).json["hold_id"]
    check_problem(client.hold(event, "A-1", "A-2", "A-3"), "too_many_seats")
    check_problem(client.patch(f"/api/holds/{hold}", {"areas": floor(3)}), "too_many_seats")
    client.patch(f"/api/holds/{hold}", {"areas": floor(2)}).expect(200)
    check_problem(client.patch(f"/api/holds/{hold}", {"add_seat_ids": ["A-2"]}), "too_many_seats")


def test_the_nodes_setting_is_the_default(start_node, admin):
    node = start_node(max_seats_per_hold=2)
    there = admin.at(node)
    event = there.make_event(5)
    check_problem(there.hold(event, "A-1", "A-2", "A-3"), "too_many_seats")


def test_500_seats_in_one_hold(client, admin, check_audit):
    event = admin.make_event(500, policy={"max_seats_per_hold": 500})
    names = [f"A-{n}" for n in range(1, 501)]
    hold = client.held(event, *names)
    assert len(hold["seats"]) == 500
    assert len(client.confirm(hold["hold_id"]).expect(200).json["tickets"]) == 500
    check_audit(event)


# --- seats a user --------------------------------------------------------------------------------------------


def test_a_user_has_no_more_than_the_limit(client, other, admin, check_audit):
    event = admin.make_event(10, policy={"max_seats_per_user": 3})
    client.held(event, "A-1", "A-2")
    check_problem(client.hold(event, "A-3", "A-4", cart="c2"), "user_limit")
    client.held(event, "A-3", cart="c2")
    check_problem(client.hold_one(event, "A-4", cart="c3"), "user_limit")
    other.held(event, "A-4", "A-5", "A-6")
    check_audit(event)


def test_sold_seats_count_and_free_ones_do_not(client, admin):
    event = admin.make_event(10, policy={"max_seats_per_user": 2})
    client.confirm(client.held(event, "A-1")["hold_id"]).expect(200)
    second = client.held(event, "A-2", cart="c2")["hold_id"]
    check_problem(client.hold_one(event, "A-3", cart="c3"), "user_limit")
    client.cancel(second).expect(200)
    client.hold_one(event, "A-3", cart="c3").expect(201)


def test_what_is_over_does_not_count(client, admin):
    event = admin.make_event(4, policy={"max_seats_per_user": 2, "hold_ttl": 1})
    hold = client.held(event, "A-1", "A-2")["hold_id"]
    wait_until(lambda: client.get_hold(hold).json["status"] == "expired")
    client.held(event, "A-3", "A-4")


def test_quantities_count(client, admin):
    event = admin.make_event(4, areas=[FLOOR], policy={"max_seats_per_user": 4})
    client.hold(event, "A-1", areas=floor(2)).expect(201)
    check_problem(client.hold(event, areas=floor(2), cart="c2"), "user_limit")
    client.hold(event, areas=floor(1), cart="c2").expect(201)
    check_problem(client.hold_one(event, "A-2", cart="c3"), "user_limit")


def test_patch_counts(client, admin):
    event = admin.make_event(6, areas=[FLOOR], policy={"max_seats_per_user": 3})
    hold = client.held(event, "A-1")["hold_id"]
    client.held(event, "A-2", cart="c2")
    path = f"/api/holds/{hold}"
    check_problem(client.patch(path, {"add_seat_ids": ["A-3", "A-4"]}), "user_limit")
    check_problem(client.patch(path, {"areas": floor(2)}), "user_limit")
    client.patch(path, {"add_seat_ids": ["A-3"]}).expect(200)
    check_problem(client.patch(path, {"add_seat_ids": ["A-4"]}), "user_limit")
    client.patch(path, {"add_seat_ids": ["A-4"], "remove_seat_ids": ["A-3"]}).expect(200)


def test_agents_are_bound_by_the_limit_of_the_user_they_act_for(client, admin):
    event = admin.make_event(4, policy={"max_seats_per_user": 1})
    agent = client.as_user("agent-1", "agent")
    agent.held(event, "A-1", user_id=client.user)
    check_problem(agent.hold(event, "A-2", user_id=client.user, cart="c2"), "user_limit")
    agent.held(event, "A-2", user_id="user-2")


def test_ones_own_seats_again_are_within_any_limit(client, admin):
    event = admin.make_event(4, policy={"max_seats_per_user": 2, "max_seats_per_hold": 2})
    hold = client.held(event, "A-1", "A-2")
    assert client.hold(event, "A-1", "A-2").expect(200).json["hold_id"] == hold["hold_id"]


def test_limits_are_per_event(client, admin):
    for _ in range(3):
        event = admin.make_event(2, policy={"max_seats_per_user": 1})
        client.held(event, "A-1")
        check_problem(client.hold_one(event, "A-2", cart="c2"), "user_limit")


@pytest.mark.parametrize("round_number", range(4))
def test_8_parallel_holds_under_a_cap_of_4_give_exactly_4(client, admin, start_node_once, check_audit, round_number):
    event = admin.make_event(8, policy={"max_seats_per_user": 4})
    second = client.at(start_node_once)
    answers = at_once(8, lambda i: (client, second)[i % 2].hold_one(event, f"A-{i + 1}", cart=f"c{i}"))
    assert sorted(answer.status for answer in answers) == [201] * 4 + [422] * 4
    assert {answer.code for answer in answers} == {None, "user_limit"}
    check_audit(event)


@pytest.fixture(scope="module")
def start_node_once(log_folder, database_url, empty_redis):
    """A second node for all tests of this module."""
    from support.node import Node
    node = Node(log_folder, database_url, empty_redis).start()
    yield node
    node.stop()


# --- one hold a user -----------------------------------------------------------------------------------------


@pytest.fixture
def flight(admin):
    return admin.make_event(6, kind="flight", areas=[FLOOR])


def test_a_new_hold_replaces_the_old_one(client, flight, db, org, check_audit):
    old = client.held(flight, "A-1")
    new = client.held(flight, "A-2", cart="c2")
    assert new["hold_id"] != old["hold_id"] and seat_ids(new) == ["A-2"]
    ended = client.get_hold(old["hold_id"]).json
    assert (ended["status"], ended["reason"]) == ("cancelled", "replaced")
    assert seat_row(db, org, flight, "A-1").status == "available"
    assert actions(db, org, flight, "A-1") == ["seat_held", "seat_released"]
    assert audit(db, org, flight, "A-1")[-1].reason == "replaced"
    check_audit(flight)


def test_the_same_again_replaces_nothing(client, flight):
    old = client.held(flight, "A-1")
    assert client.hold_one(flight, "A-1").expect(200).json["hold_id"] == old["hold_id"]
    assert client.hold_one(flight, "A-1", cart="another").expect(200).json["hold_id"] == old["hold_id"]


def test_a_new_hold_has_exactly_what_was_asked_for(client, flight, check_audit):
    """Own seats don't pull the old hold along: it is replaced."""
    old = client.held(flight, "A-1", "A-2")
    new = client.hold(flight, "A-2", "A-3").expect(201).json
    assert new["hold_id"] != old["hold_id"] and sorted(seat_ids(new)) == ["A-2", "A-3"]
    assert client.seat_status(flight, "A-1") == "available"
    assert client.get_hold(old["hold_id"]).json["status"] == "cancelled"
    check_audit(flight)


def test_a_refused_one_replaces_nothing(client, other, flight, db):
    old = client.held(flight, "A-1")
    other.held(flight, "A-2")
    before = hold_lines(db, old["hold_id"])
    check_problem(client.hold(flight, "A-2"), "seat_taken")
    check_problem(client.hold(flight, "A-1", "A-2"), "seat_taken")
    check_problem(client.hold(flight, "Z-1"), "seat_not_found")
    assert hold_lines(db, old["hold_id"]) == before


def test_areas_are_replaced_too(client, flight, db, org, check_audit):
    client.hold(flight, "A-1", areas=floor(3)).expect(201)
    client.hold(flight, areas=floor(2), cart="c2").expect(201)
    assert area_row(db, org, flight, "floor").held == 2
    assert client.seat_status(flight, "A-1") == "available"
    check_audit(flight)


def test_sold_seats_are_not_replaced(client, flight):
    client.confirm(client.held(flight, "A-1")["hold_id"]).expect(200)
    client.held(flight, "A-2")
    assert client.seat_status(flight, "A-1") == "sold"


def test_a_replaced_hold_makes_room_under_the_limit(client, admin):
    event = admin.make_event(6, kind="flight", policy={"max_seats_per_user": 2})
    client.held(event, "A-1", "A-2")
    client.held(event, "A-3", "A-4")
    check_problem(client.hold(event, "A-1", "A-2", "A-3"), "user_limit")


def test_many_at_once_leave_one(client, flight, start_node_once, db, org, check_audit):
    second = client.at(start_node_once)
    answers = at_once(6, lambda i: (client, second)[i % 2].hold_one(flight, f"A-{i + 1}", cart=f"c{i}"))
    for answer in answers:
        assert answer.status == 201 or answer.code == "seat_contended", answer
    assert list(seat_statuses(db, org, flight).values()).count("held") == 1
    check_audit(flight)


def test_a_transfer_does_not_make_two(client, other, flight):
    other.held(flight, "A-1")
    hold = client.held(flight, "A-2")["hold_id"]
    check_problem(client.post(f"/api/holds/{hold}/transfer", {"to_user_id": other.user}), "user_limit")


def test_versions_go_on_through_replacements(client, flight):
    """A-1 held, replaced, held: each step one version."""
    client.held(flight, "A-1")
    client.held(flight, "A-2", cart="c2")
    assert versions(client.held(flight, "A-1", cart="c3"))["A-1"] == 3
