"""Taking seats: one, many, areas; again; for others; what is refused, and in which order."""

import json

import pytest

from support.client import Client, seat
from support.contract import check_hold, check_problem, quantities, seat_ids, seats_of, time_of, versions
from support.tables import actions, area_row, audit, hold_lines, query, seat_row, seat_statuses
from support.waiting import at_once, wait_until

FLOOR = {"area_id": "floor", "name": "Floor", "capacity": 10, "price": 300}
ROOF = {"area_id": "roof", "name": "Roof", "capacity": 10}


def floor(quantity):
    return {"area_id": "floor", "quantity": quantity}


@pytest.fixture
def house(admin):
    """Ten seats at 1000, one without a price, and two areas."""
    seats = [seat(f"A-{n}", number=n, price=1000) for n in range(1, 11)] + [seat("B-1", row="B")]
    return admin.make_event(seats, areas=[FLOOR, ROOF])


# --- a new hold ----------------------------------------------------------------------------------------------


def test_one_seat(client, event, db, org, check_audit):
    answer = client.hold_one(event, "A-1").expect(201)
    hold = check_hold(answer.json)
    assert answer.headers["Location"] == f"/api/holds/{hold['hold_id']}"
    assert (hold["event_id"], hold["user_id"], hold["cart_token"]) == (event, client.user, "cart-1")
    assert (hold["status"], hold["source"], hold["areas"]) == ("active", "web", [])
    assert hold["seats"] == [{"seat_id": "A-1", "section": "main", "row": "A", "number": "1", "version": 1}]
    assert 890 <= hold["expires_in_seconds"] <= 900
    row = seat_row(db, org, event, "A-1")
    assert (row.status, row.hold_id, row.version, row.user_id) == ("held", hold["hold_id"], 1, client.user)
    [line] = hold_lines(db, hold["hold_id"])
    assert (line.seat_id, line.user_id, line.cart_token, line.status) == ("A-1", client.user, "cart-1", "active")
    assert line.held_until == row.held_until
    [entry] = audit(db, org, event, "A-1")
    assert (entry.action, entry.version, entry.hold_id, entry.actor) == ("seat_held", 1, hold["hold_id"], client.user)
    assert entry.request_id == answer.headers["X-Request-Id"]
    check_audit(event)


def test_times_are_rounded_down_to_the_millisecond(client, event, db, org):
    hold = client.held(event, "A-1")
    row = seat_row(db, org, event, "A-1")
    exact = (row.held_until - time_of(hold["expires_at"])).total_seconds()
    assert 0 <= exact < 0.001
    assert (time_of(hold["expires_at"]) - time_of(hold["created_at"])).total_seconds() == pytest.approx(900, abs=0.002)


def test_many_seats_in_the_order_asked_for(client, house, db, check_audit):
    hold = check_hold(client.held(house, "A-3", "A-1", "A-2"))
    assert sorted(seat_ids(hold)) == ["A-1", "A-2", "A-3"]
    lines = hold_lines(db, hold["hold_id"])
    assert {line.held_until for line in lines} == {lines[0].held_until}  # one value for all seats of a hold
    assert (hold["amount"], hold["currency"]) == (3000, "USD")
    check_audit(house)


def test_areas_alone(client, house, db, org, check_audit):
    hold = check_hold(client.hold(house, areas=[floor(3), {"area_id": "roof", "quantity": 1}]).expect(201).json)
    assert hold["seats"] == [] and quantities(hold) == {"floor": 3, "roof": 1}
    assert "amount" not in hold  # the roof has no price
    assert area_row(db, org, house, "floor")[:3] == (10, 3, 0)
    assert {(line.area_id, line.seat_id, line.quantity) for line in hold_lines(db, hold["hold_id"])} == \
        {("floor", None, 3), ("roof", None, 1)}
    check_audit(house)


def test_seats_and_areas_together(client, house, db, org, check_audit):
    hold = check_hold(client.hold(house, "A-1", "A-2", areas=[floor(2)]).expect(201).json)
    assert sorted(seat_ids(hold)) == ["A-1", "A-2"] and quantities(hold) == {"floor": 2}
    assert hold["amount"] == 2 * 1000 + 2 * 300
    assert area_row(db, org, house, "floor").held == 2
    check_audit(house)


def test_a_seat_without_a_price_has_no_amount(client, house):
    assert "amount" not in client.held(house, "A-1", "B-1")


def test_the_names_of_seed_004(client, house, db):
    body = {"showId": house, "showSeatIds": ["A-1", "A-2"], "customerEmail": "ann@example.org"}
    hold = check_hold(client.post("/api/holds", body).expect(201).json)
    assert sorted(seat_ids(hold)) == ["A-1", "A-2"] and hold["cart_token"]
    assert hold_lines(db, hold["hold_id"])[0].customer_email == "ann@example.org"
    again = client.post("/api/holds", body).expect(200).json
    assert again["hold_id"] == hold["hold_id"]


def test_names_of_both_kinds_mix(client, house):
    body = {"event_id": house, "showSeatIds": ["A-1"], "cart_token": "c", "customer_email": "ann@example.org"}
    assert client.post("/api/holds", body).expect(201).json["cart_token"] == "c"


def test_unknown_fields_are_ignored(client, event):
    client.hold(event, "A-1", colour="red", nested={"a": [1, {"b": None}]}).expect(201)


@pytest.mark.parametrize("source", ["web", "scanner", "offline_sync"])
def test_the_source_is_kept(client, event, source):
    hold = client.held(event, "A-1", source=source)
    assert client.get_hold(hold["hold_id"]).json["source"] == source


def test_the_warm_tier_has_it(client, house, redis, org):
    hold = client.held(house, "A-1")
    prefix = f"holdfast:{{org:{org}:event:{house}}}"
    value = json.loads(wait_until(lambda: redis.get(f"{prefix}:seat:A-1")))
    assert (value["hold_id"], value["user_id"], value["cart_token"]) == (hold["hold_id"], client.user, "cart-1")
    assert value["version"] == 1 and value["expires_at"] == hold["expires_at"] and value["held_at"] == hold["created_at"]
    member = f"A-1:{hold['hold_id']}:{client.user}"
    score = wait_until(lambda: redis.zscore(f"{prefix}:seat_holds", member))
    assert abs(score / 1000 - time_of(hold["expires_at"]).timestamp()) < 0.002
    assert wait_until(lambda: redis.hgetall(f"{prefix}:hold:{hold['hold_id']}:meta"))
    client.cancel(hold["hold_id"]).expect(200)
    wait_until(lambda: redis.get(f"{prefix}:seat:A-1") is None)
    wait_until(lambda: redis.zscore(f"{prefix}:seat_holds", member) is None)


# --- reading -------------------------------------------------------------------------------------------------


def test_a_hold_is_read_as_it_was_made(client, house):
    hold = client.hold(house, "A-1", "A-2", areas=[floor(1)]).expect(201).json
    read = check_hold(client.get_hold(hold["hold_id"]).expect(200).json)
    assert {k: v for k, v in read.items() if k != "expires_in_seconds"} == \
        {k: v for k, v in hold.items() if k != "expires_in_seconds"}


def test_staff_may_read_any_hold_of_their_organization(client, event):
    hold = client.held(event, "A-1")["hold_id"]
    for role in ("agent", "service", "admin"):
        assert client.as_user("staff", role).get_hold(hold).expect(200).json["user_id"] == client.user


def test_the_list_has_ones_own_holds_of_the_event(client, other, admin, house):
    first = client.held(house, "A-1")["hold_id"]
    second = client.held(house, "A-2", cart="c2")["hold_id"]
    other.held(house, "A-3")
    client.held(admin.make_event(1), "A-1")
    listed = client.get(f"/api/holds?event_id={house}").expect(200).json
    assert {hold["hold_id"] for hold in listed["holds"]} == {first, second}
    for hold in listed["holds"]:
        check_hold(hold)
    assert client.as_user().get(f"/api/holds?event_id={house}").json["holds"] == []


def test_the_list_of_another_user_is_for_staff(client, other, event):
    hold = client.held(event, "A-1")["hold_id"]
    check_problem(other.get(f"/api/holds?event_id={event}&user_id={client.user}"), "forbidden")
    agent = client.as_user("agent-1", "agent")
    [only] = agent.get(f"/api/holds?event_id={event}&user_id={client.user}").expect(200).json["holds"]
    assert only["hold_id"] == hold


def test_a_list_of_many_comes_in_pages(client, admin):
    event = admin.make_event(30)
    made = {client.held(event, f"A-{n}", cart=f"c{n}")["hold_id"] for n in range(1, 31)}
    seen, path = set(), f"/api/holds?event_id={event}&limit=7"
    after = ""
    while after is not None:
        page = client.get(path + (f"&after={after}" if after else "")).expect(200).json
        assert len(page["holds"]) <= 7
        ids = {hold["hold_id"] for hold in page["holds"]}
        assert not ids & seen
        seen |= ids
        after = page.get("next")
    assert seen == made


def test_a_list_needs_an_event(client):
    check_problem(client.get("/api/holds"), "missing_field")
    check_problem(client.get("/api/holds?event_id=a%20b"), "invalid_id")


# --- own seats again -----------------------------------------------------------------------------------------


def test_the_same_seats_again_give_the_same_hold(client, house, db, org):
    hold = client.held(house, "A-1", "A-2")
    entries = audit(db, org, house)
    for seats in (("A-1", "A-2"), ("A-2", "A-1"), ("A-1",), ("A-2",)):
        again = client.hold(house, *seats).expect(200)
        assert again.json["hold_id"] == hold["hold_id"]
        assert again.json["expires_at"] == hold["expires_at"]
        assert sorted(seat_ids(again.json)) == ["A-1", "A-2"]
        assert "Location" not in again.headers
    assert client.hold_one(house, "A-1").expect(200).json["hold_id"] == hold["hold_id"]
    assert client.hold_one(house, "A-1", cart="another").expect(200).json["cart_token"] == "cart-1"
    assert audit(db, org, house) == entries


def test_own_seats_of_several_holds_give_that_of_the_first(client, house):
    first = client.held(house, "A-1")["hold_id"]
    second = client.held(house, "A-2")["hold_id"]
    assert client.hold(house, "A-1", "A-2").expect(200).json["hold_id"] == first
    assert client.hold(house, "A-2", "A-1").expect(200).json["hold_id"] == second


def test_free_seats_join_the_hold_of_the_first_own_one(client, house, db, check_audit):
    first = client.held(house, "A-1")
    client.held(house, "A-2")
    grown = client.hold(house, "A-3", "A-1", "A-2", "A-4").expect(200).json
    assert grown["hold_id"] == first["hold_id"] and grown["expires_at"] == first["expires_at"]
    assert sorted(seat_ids(grown)) == ["A-1", "A-3", "A-4"]
    lines = hold_lines(db, first["hold_id"])
    assert {line.held_until for line in lines} == {lines[0].held_until}
    assert {line.created_at for line in lines} == {lines[0].created_at}
    check_audit(house)


def test_joining_is_all_or_nothing(client, other, house, db, org):
    hold = client.held(house, "A-1")
    other.held(house, "A-3")
    before = (hold_lines(db, hold["hold_id"]), audit(db, org, house))
    problem = check_problem(client.hold(house, "A-1", "A-2", "A-3"), "seat_taken")
    assert seats_of(problem) == {"A-3": "seat_taken"}
    assert (hold_lines(db, hold["hold_id"]), audit(db, org, house)) == before


def test_a_refusal_moves_no_timer(client, other, house):
    hold = client.held(house, "A-1")
    other.held(house, "A-2")
    check_problem(client.hold(house, "A-2"), "seat_taken")
    check_problem(client.hold(house, "A-1", "Z-1"), "seat_not_found")
    assert client.get_hold(hold["hold_id"]).json["expires_at"] == hold["expires_at"]


def test_areas_again_are_known_by_cart_areas_and_quantities(client, house, db, org):
    hold = client.hold(house, areas=[floor(2)]).expect(201).json
    assert client.hold(house, areas=[floor(2)]).expect(200).json["hold_id"] == hold["hold_id"]
    assert area_row(db, org, house, "floor").held == 2
    more = client.hold(house, areas=[floor(2)], cart="another").expect(201).json
    assert more["hold_id"] != hold["hold_id"]
    assert area_row(db, org, house, "floor").held == 4


def test_another_user_with_the_same_cart_token_is_another_user(client, other, house):
    mine = client.hold(house, areas=[floor(2)]).expect(201).json
    theirs = other.hold(house, areas=[floor(2)]).expect(201).json
    assert mine["hold_id"] != theirs["hold_id"]


def test_areas_of_a_hold_that_is_over_are_new(client, admin):
    event = admin.make_event(0, areas=[FLOOR], policy={"hold_ttl": 1})
    hold = client.hold(event, areas=[floor(2)]).expect(201).json
    wait_until(lambda: client.get_hold(hold["hold_id"]).json["status"] == "expired")
    assert client.hold(event, areas=[floor(2)]).expect(201).json["hold_id"] != hold["hold_id"]


def test_a_double_click_of_seats_and_areas_is_one_hold(client, house, db, org, check_audit):
    answers = at_once(6, lambda _: client.hold(house, "A-1", "A-2", areas=[floor(2)]))
    assert sorted(answer.status for answer in answers) == [200] * 5 + [201]
    assert len({answer.json["hold_id"] for answer in answers}) == 1
    assert area_row(db, org, house, "floor").held == 2
    check_audit(house)


def test_a_double_click_of_areas_is_one_hold(client, house, db, org, check_audit):
    answers = at_once(6, lambda _: client.hold(house, areas=[floor(2)]))
    assert sorted(answer.status for answer in answers) == [200] * 5 + [201]
    assert area_row(db, org, house, "floor").held == 2
    check_audit(house)


# --- for others ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["agent", "service", "admin"])
def test_staff_hold_for_another_user(client, event, role, db, org):
    staff = client.as_user("staff-1", role)
    hold = staff.held(event, "A-1", user_id=client.user)
    assert hold["user_id"] == client.user
    assert client.seat(event, "A-1").json["mine"] is True
    assert audit(db, org, event, "A-1")[-1].actor == "staff-1"
    assert audit(db, org, event, "A-1")[-1].user_id == client.user
    client.extend(hold["hold_id"]).expect(200)
    assert staff.hold_one(event, "A-2", user_id=client.user).expect(201).json["user_id"] == client.user


@pytest.mark.parametrize("role", ["agent", "service", "admin"])
def test_staff_may_change_any_hold(client, event, role):
    staff = client.as_user("staff-1", role)
    hold = client.held(event, "A-1", "A-2")["hold_id"]
    staff.extend(hold).expect(200)
    staff.patch(f"/api/holds/{hold}", {"add_seat_ids": ["A-3"]}).expect(200)
    staff.delete(f"/api/holds/{hold}/seats/A-2").expect(200)
    assert staff.confirm(hold).expect(200).json["user_id"] == client.user
    another = client.held(event, "A-5")["hold_id"]
    assert staff.cancel(another).expect(200).json["status"] == "cancelled"


def test_ttl_seconds_by_agents(client, event):
    agent = client.as_user("agent-1", "agent")
    assert 50 <= agent.held(event, "A-1", ttl_seconds=60)["expires_in_seconds"] <= 60
    assert agent.held(event, "A-2", ttl_seconds=1200, cart="c2")["expires_in_seconds"] >= 1190
    assert client.as_user("s", "service").held(event, "A-3", ttl_seconds=1)["expires_in_seconds"] <= 1
    for seconds in (1201, 100_000):
        check_problem(agent.hold(event, "A-4", ttl_seconds=seconds, cart="c4"), "invalid_field")
    check_problem(agent.hold(event, "A-4", ttl_seconds=0, cart="c4"), "invalid_field")
    assert agent.seat_status(event, "A-4") == "available"


def test_agents_hold_before_and_after_the_sale(client, admin):
    for status in ("scheduled", "closed"):
        event = admin.make_event(3, status=status)
        for number, role in enumerate(("agent", "service", "admin"), 1):
            client.as_user("staff", role).hold_one(event, f"A-{number}", cart=role).expect(201)


def test_nobody_holds_what_is_cancelled(client, admin):
    event = admin.make_event(3, status="cancelled")
    for role in ("user", "agent", "service", "admin"):
        check_problem(client.as_user("staff", role).hold_one(event, "A-1"), "event_closed")


def test_a_cancelled_event_stops_all_but_release(client, admin, event):
    hold = client.held(event, "A-1")["hold_id"]
    admin.set_event(event, status="cancelled")
    check_problem(client.extend(hold), "event_closed")
    check_problem(client.confirm(hold), "event_closed")
    check_problem(client.patch(f"/api/holds/{hold}", {"add_seat_ids": ["A-2"]}), "event_closed")
    client.cancel(hold).expect(200)


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.fixture
def mixed(client, other, admin, house):
    """A-1 mine, A-2 taken, A-3 sold, A-4 blocked, A-5... free."""
    client.held(house, "A-1")
    other.held(house, "A-2")
    other.confirm(other.held(house, "A-3", cart="c3")["hold_id"]).expect(200)
    admin.post("/api/admin/seats/block", {"event_id": house, "seat_ids": ["A-4"], "reason": "x"}).expect(200)
    return house


def test_each_failing_seat_is_named_and_the_first_gives_the_code(client, mixed, db, org):
    before = seat_statuses(db, org, mixed)
    failing = {"A-2": "seat_taken", "A-3": "seat_sold", "A-4": "seat_blocked"}
    for first in failing:
        rest = [name for name in failing if name != first]
        problem = check_problem(client.hold(mixed, "A-5", first, "A-6", *rest), failing[first])
        assert seats_of(problem) == failing
        assert [entry["seat_id"] for entry in problem["seats"]] == [first, *rest]
    assert seat_statuses(db, org, mixed) == before


def test_a_refusal_after_a_restart_names_each_too(client, mixed, start_node):
    """A node that remembers nothing asks Postgres."""
    second = client.at(start_node())
    problem = check_problem(second.hold(mixed, "A-5", "A-3", "A-2", "A-4"), "seat_sold")
    assert seats_of(problem) == {"A-3": "seat_sold", "A-2": "seat_taken", "A-4": "seat_blocked"}


def test_an_unknown_seat_comes_before_a_taken_one(client, mixed, start_node):
    for caller in (client, client.at(start_node())):
        problem = check_problem(caller.hold(mixed, "A-2", "Z-1"), "seat_not_found")
        assert seats_of(problem)["Z-1"] == "seat_not_found"


def test_shape_comes_before_all(node, admin):
    """A body that is wrong is wrong whoever sends it, about whatever event."""
    closed = admin.make_event(1, status="closed")
    user = admin.as_user()
    check_problem(user.post("/api/holds", {"event_id": closed, "seat_ids": ["A-1"]}), "missing_field")
    check_problem(user.post("/api/holds", {"event_id": "nowhere", "seat_ids": "A-1", "cart_token": "c"}), "invalid_field")
    check_problem(user.hold(closed, "A-1", "A-1"), "duplicate_seat")


def test_the_role_comes_before_the_event(client):
    check_problem(client.hold("nowhere", "A-1", user_id="another"), "forbidden")
    check_problem(client.hold("nowhere", "A-1", ttl_seconds=5), "forbidden")


def test_closed_comes_before_unknown_seats_and_limits(client, admin):
    event = admin.make_event(1, status="closed", policy={"max_seats_per_hold": 1})
    check_problem(client.hold(event, "Z-1"), "event_closed")
    check_problem(client.hold(event, "A-1", "Z-1"), "event_closed")
    check_problem(client.hold(event, areas=[{"area_id": "none", "quantity": 1}]), "event_closed")


def test_unknown_comes_before_limits(client, admin):
    event = admin.make_event(3, policy={"max_seats_per_hold": 1})
    check_problem(client.hold(event, "A-1", "Z-1"), "seat_not_found")
    check_problem(client.hold(event, "A-1", "A-2", areas=[{"area_id": "none", "quantity": 1}]), "area_not_found")


def test_limits_come_before_taken_where_the_store_judges(client, other, admin, start_node):
    event = admin.make_event(3, policy={"max_seats_per_hold": 1})
    other.held(event, "A-1")
    fresh = client.at(start_node())
    answer = fresh.hold(event, "A-1", "A-2")
    assert answer.code in ("too_many_seats", "seat_taken")  # where memory knows of A-1, that comes first
    check_problem(client.hold(event, "A-2", "A-3"), "too_many_seats")


def test_a_cap_on_a_hold_counts_seats_and_quantities(client, admin):
    event = admin.make_event(5, areas=[FLOOR], policy={"max_seats_per_hold": 3})
    check_problem(client.hold(event, "A-1", "A-2", areas=[floor(2)]), "too_many_seats")
    check_problem(client.hold(event, areas=[floor(4)]), "too_many_seats")
    client.hold(event, "A-1", "A-2", areas=[floor(1)]).expect(201)


def test_all_or_nothing_for_areas(client, other, house, db, org):
    other.hold(house, areas=[floor(8)]).expect(201)
    check_problem(client.hold(house, "A-1", areas=[{"area_id": "roof", "quantity": 1}, floor(3)]), "area_full")
    assert area_row(db, org, house, "roof").held == 0
    assert seat_row(db, org, house, "A-1").status == "available"


def test_two_users_and_an_area_that_has_room_for_one(admin, db, org, check_audit):
    event = admin.make_event(0, areas=[FLOOR | {"capacity": 4}])
    users = [admin.as_user() for _ in range(6)]
    answers = at_once(6, lambda index: users[index].hold(event, areas=[floor(2)]))
    assert sorted(answer.status for answer in answers) == [201, 201, 409, 409, 409, 409]
    assert {answer.code for answer in answers} == {None, "area_full"}
    assert area_row(db, org, event, "floor")[:3] == (4, 4, 0)
    check_audit(event)


def test_full_is_not_said_while_something_is_over(client, other, admin, check_audit):
    event = admin.make_event(0, areas=[FLOOR | {"capacity": 2}], policy={"hold_ttl": 1})
    hold = other.hold(event, areas=[floor(2)]).expect(201).json
    wait_until(lambda: other.get_hold(hold["hold_id"]).json["status"] == "expired")
    client.hold(event, areas=[floor(2)]).expect(201)
    check_audit(event)


# --- taking over what is over --------------------------------------------------------------------------------


def test_a_hold_that_is_over_is_taken_over(client, other, admin, db, org, check_audit, database_url, start_node):
    """On a node whose wheel is not about it, before any reaper comes: two changes, both audited."""
    event = admin.make_event(3, policy={"hold_ttl": 1})
    first = start_node()
    old = client.at(first).held(event, "A-1", "A-2")
    first.kill()
    wait_until(lambda: client.get_hold(old["hold_id"]).json["status"] == "expired")
    new = other.held(event, "A-1")
    assert new["seats"][0]["version"] == 3
    assert actions(db, org, event, "A-1") == ["seat_held", "seat_released", "seat_held"]
    [_, released, held] = audit(db, org, event, "A-1")
    assert (released.version, released.hold_id, released.reason) == (2, old["hold_id"], "ttl_expired")
    assert (held.version, held.hold_id) == (3, new["hold_id"])
    wait_until(lambda: seat_row(db, org, event, "A-2").status == "available", timeout=10)
    check_audit(event)


def test_a_held_seat_names_its_end_to_nobody_else(client, other, event):
    hold = client.held(event, "A-1")
    body = other.hold(event, "A-1").expect(409).body.decode()
    for secret in (client.user, hold["hold_id"], "cart-1"):
        assert secret not in body


def test_tenants_do_not_meet(node, org):
    admins = [Client(node, f"{org}-{n}", "same", "admin") for n in "ab"]
    for admin in admins:
        admin.make_event(1, event="same", areas=[FLOOR])
    holds = [admin.hold("same", "A-1", areas=[floor(6)]).expect(201).json for admin in admins]
    assert len({hold["hold_id"] for hold in holds}) == 2


def test_the_versions_of_a_hold_are_the_seats(client, event, db, org):
    hold = client.held(event, "A-1", "A-2")
    for name, version in versions(hold).items():
        assert seat_row(db, org, event, name).version == version
    [count] = query(db, "SELECT count(*) FROM seat_holds WHERE org_id = %s", org)
    assert count == (2,)
