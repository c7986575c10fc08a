"""What is done to a hold after its birth: extend, PATCH, release, transfer, confirm."""

import pytest

from support.client import seat
from support.contract import check_hold, check_problem, quantities, seat_ids, seats_of, time_of, versions
from support.tables import actions, area_row, audit, hold_lines, seat_locked, seat_row
from support.waiting import at_once, wait_until

FLOOR = {"area_id": "floor", "name": "Floor", "capacity": 10, "price": 300}
ROOF = {"area_id": "roof", "name": "Roof", "capacity": 2}


def area(area_id, quantity):
    return {"area_id": area_id, "quantity": quantity}


@pytest.fixture
def house(admin):
    """Ten seats at 1000 and two areas."""
    return admin.make_event([seat(f"A-{n}", number=n, price=1000) for n in range(1, 11)], areas=[FLOOR, ROOF])


def patch(client, hold_id, **change):
    return client.patch(f"/api/holds/{hold_id}", change)


def transfer(client, hold_id, to_user):
    return client.post(f"/api/holds/{hold_id}/transfer", {"to_user_id": to_user})


def seconds_between(earlier, later):
    return (time_of(later) - time_of(earlier)).total_seconds()


# --- extend --------------------------------------------------------------------------------------------------


def test_extend_adds_to_the_end(client, house, db, org, check_audit):
    hold = client.held(house, "A-1", "A-2")
    longer = check_hold(client.extend(hold["hold_id"], seconds=60).expect(200).json)
    assert seconds_between(hold["expires_at"], longer["expires_at"]) == pytest.approx(60, abs=0.002)
    assert longer["created_at"] == hold["created_at"]
    assert versions(longer) == {name: version + 1 for name, version in versions(hold).items()}
    for name in ("A-1", "A-2"):
        assert abs((seat_row(db, org, house, name).held_until - time_of(longer["expires_at"])).total_seconds()) < 0.001
        assert actions(db, org, house, name) == ["seat_held", "hold_extended"]
    assert {line.held_until for line in hold_lines(db, hold["hold_id"])} == {seat_row(db, org, house, "A-1").held_until}
    check_audit(house)


def test_extend_without_seconds_takes_the_policys(client, admin):
    event = admin.make_event(1, policy={"extend_by": 17})
    hold = client.held(event, "A-1")
    for body in ({"body": b""}, {"json": {}}, {"json": {"seconds": None}}):
        longer = client.request("POST", f"/api/holds/{hold['hold_id']}/extend", **body).expect(200).json
        assert seconds_between(hold["expires_at"], longer["expires_at"]) == pytest.approx(17, abs=0.002)
        hold = longer


def test_extend_stops_at_max_hold(client, admin, db, org):
    event = admin.make_event(1, policy={"hold_ttl": 60, "max_hold": 100})
    hold = client.held(event, "A-1")
    longest = client.extend(hold["hold_id"], seconds=1000).expect(200).json
    assert seconds_between(hold["created_at"], longest["expires_at"]) == pytest.approx(100, abs=0.002)
    before = (seat_row(db, org, event, "A-1"), audit(db, org, event))
    again = client.extend(hold["hold_id"]).expect(200).json  # at the cap: unchanged
    assert again["expires_at"] == longest["expires_at"]
    assert (seat_row(db, org, event, "A-1"), audit(db, org, event)) == before


def test_extend_never_shortens(client, admin):
    """A policy that allows less than a hold has already takes nothing away."""
    event = admin.make_event(1, policy={"hold_ttl": 600, "max_hold": 900})
    hold = client.held(event, "A-1")
    admin.set_event(event, policy={"hold_ttl": 60, "max_hold": 100})
    assert client.extend(hold["hold_id"]).expect(200).json["expires_at"] == hold["expires_at"]


@pytest.mark.parametrize("seconds", [0, -1, 1.5, "60", True, [], 1e300])
def test_extend_by_what_is_no_number_of_seconds(client, event, seconds):
    hold = client.held(event, "A-1")["hold_id"]
    check_problem(client.extend(hold, seconds=seconds), "invalid_field")


def test_two_extends_at_once_both_count(client, event):
    hold = client.held(event, "A-1")
    for answer in at_once(4, lambda _: client.extend(hold["hold_id"], seconds=10)):
        answer.expect(200)
    longest = client.get_hold(hold["hold_id"]).json
    assert seconds_between(hold["expires_at"], longest["expires_at"]) == pytest.approx(40, abs=0.002)


def test_extend_waits_for_a_lock_and_then_judges(client, admin, database_url, org):
    """A hold that ended while its row was locked is over, whenever the request came."""
    event = admin.make_event(1, policy={"hold_ttl": 1})
    hold = client.held(event, "A-1")["hold_id"]
    with seat_locked(database_url, org, event, "A-1") as lock:
        import concurrent.futures
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            extending = pool.submit(client.extend, hold)
            wait_until(lambda: client.get_hold(hold).json["status"] == "expired")
            lock.connection.rollback()
            answer = extending.result()
    assert answer.status == 200 or answer.code == "hold_expired"
    if answer.status == 409:
        check_problem(answer, "hold_expired")


# --- PATCH ---------------------------------------------------------------------------------------------------


def test_patch_adds(client, house, db, org, check_audit):
    hold = client.held(house, "A-1")
    grown = check_hold(patch(client, hold["hold_id"], add_seat_ids=["A-2", "A-3"]).expect(200).json)
    assert sorted(seat_ids(grown)) == ["A-1", "A-2", "A-3"] and grown["amount"] == 3000
    assert grown["expires_at"] == hold["expires_at"]
    assert seat_row(db, org, house, "A-2").hold_id == hold["hold_id"]
    assert versions(grown)["A-1"] == versions(hold)["A-1"]  # what wasn't touched stays
    check_audit(house)


def test_patch_removes(client, other, house, db, org, check_audit):
    hold = client.held(house, "A-1", "A-2")["hold_id"]
    smaller = check_hold(patch(client, hold, remove_seat_ids=["A-1"]).expect(200).json)
    assert seat_ids(smaller) == ["A-2"]
    assert seat_row(db, org, house, "A-1").status == "available"
    assert audit(db, org, house, "A-1")[-1].reason == "user_cancelled"
    other.held(house, "A-1")
    check_audit(house)


def test_patch_swaps_in_one_change(client, house, check_audit):
    hold = client.held(house, "A-1", "A-2")["hold_id"]
    swapped = patch(client, hold, add_seat_ids=["A-3"], remove_seat_ids=["A-1"]).expect(200).json
    assert sorted(seat_ids(swapped)) == ["A-2", "A-3"]
    assert client.seat_status(house, "A-1") == "available"
    check_audit(house)


def test_patch_sets_quantities(client, house, db, org, check_audit):
    hold = client.hold(house, "A-1", areas=[area("floor", 3)]).expect(201).json["hold_id"]
    for quantity in (5, 2, 2, 4):
        changed = check_hold(patch(client, hold, areas=[area("floor", quantity)]).expect(200).json)
        assert quantities(changed) == {"floor": quantity}
        assert area_row(db, org, house, "floor").held == quantity
    changed = patch(client, hold, areas=[area("floor", 0), area("roof", 1)]).expect(200).json
    assert quantities(changed) == {"roof": 1}
    assert (area_row(db, org, house, "floor").held, area_row(db, org, house, "roof").held) == (0, 1)
    check_audit(house)


def test_patch_of_all_kinds_at_once(client, house, check_audit):
    hold = client.hold(house, "A-1", "A-2", areas=[area("floor", 1)]).expect(201).json["hold_id"]
    changed = patch(client, hold, add_seat_ids=["A-3", "A-4"], remove_seat_ids=["A-1"],
                    areas=[area("floor", 2), area("roof", 1)]).expect(200).json
    assert sorted(seat_ids(changed)) == ["A-2", "A-3", "A-4"] and quantities(changed) == {"floor": 2, "roof": 1}
    check_audit(house)


def state(db, org, house, hold):
    return hold_lines(db, hold), audit(db, org, house), area_row(db, org, house, "floor"), area_row(db, org, house, "roof")


@pytest.mark.parametrize("change, code", [
    ({"add_seat_ids": ["A-3", "A-9"]}, "seat_taken"),
    ({"add_seat_ids": ["A-3", "Z-1"]}, "seat_not_found"),
    ({"add_seat_ids": ["A-3"], "remove_seat_ids": ["A-5"]}, "seat_not_found"),
    ({"remove_seat_ids": ["A-1", "A-9"]}, "seat_not_found"),
    ({"remove_seat_ids": ["A-1"], "areas": [area("roof", 3)]}, "area_full"),
    ({"add_seat_ids": ["A-3"], "areas": [area("none", 1)]}, "area_not_found"),
    ({"add_seat_ids": [f"A-{n}" for n in range(3, 9)], "areas": [area("floor", 3)]}, "too_many_seats"),
    ({"areas": [area("floor", 100)]}, "too_many_seats"),
], ids=["taken", "unknown", "not there", "another's", "full", "no area", "too many", "too much"])
def test_patch_is_all_or_nothing(client, other, house, db, org, change, code, check_audit):
    other.held(house, "A-9")
    hold = client.hold(house, "A-1", "A-2", areas=[area("floor", 1)]).expect(201).json["hold_id"]
    before = state(db, org, house, hold)
    check_problem(patch(client, hold, **change), code)
    assert state(db, org, house, hold) == before
    check_audit(house)


def test_patch_names_each_seat_that_it_cannot_have(client, other, house):
    other.held(house, "A-8", "A-9")
    hold = client.held(house, "A-1")["hold_id"]
    problem = check_problem(patch(client, hold, add_seat_ids=["A-8", "A-3", "A-9"]), "seat_taken")
    assert seats_of(problem) == {"A-8": "seat_taken", "A-9": "seat_taken"}


def test_patch_that_makes_room_may_use_it(client, admin, check_audit):
    """A limit judges the whole that the user would then hold."""
    event = admin.make_event(5, policy={"max_seats_per_hold": 2, "max_seats_per_user": 2})
    hold = client.held(event, "A-1", "A-2")["hold_id"]
    check_problem(patch(client, hold, add_seat_ids=["A-3"]), "too_many_seats")
    patch(client, hold, add_seat_ids=["A-3"], remove_seat_ids=["A-1"]).expect(200)
    check_audit(event)


def test_patch_of_seats_that_the_hold_has_changes_nothing(client, house, db, org):
    hold = client.held(house, "A-1", "A-2")
    before = state(db, org, house, hold["hold_id"])
    same = patch(client, hold["hold_id"], add_seat_ids=["A-1"]).expect(200).json
    assert versions(same) == versions(hold)
    assert state(db, org, house, hold["hold_id"]) == before


@pytest.mark.parametrize("change", [{}, {"add_seat_ids": []}, {"areas": []}, {"add_seat_ids": None}, {"other": 1}])
def test_patch_of_nothing(client, event, change):
    hold = client.held(event, "A-1")["hold_id"]
    check_problem(patch(client, hold, **change), "missing_field")


@pytest.mark.parametrize("change", [{"add_seat_ids": "A-2"}, {"remove_seat_ids": [7]}, {"areas": [area("floor", -1)]},
                                    {"areas": [area("floor", 1)] * 2}, {"add_seat_ids": [None]}])
def test_patch_of_what_cannot_be(client, event, change):
    hold = client.held(event, "A-1")["hold_id"]
    check_problem(patch(client, hold, **change), "invalid_field")


def test_patch_that_removes_everything_ends_the_hold(client, house, check_audit):
    hold = client.hold(house, "A-1", areas=[area("floor", 1)]).expect(201).json["hold_id"]
    ended = check_hold(patch(client, hold, remove_seat_ids=["A-1"], areas=[area("floor", 0)]).expect(200).json)
    assert ended["status"] == "cancelled"
    check_problem(patch(client, hold, add_seat_ids=["A-2"]), "hold_not_active")
    check_audit(house)


def test_a_seat_may_leave_and_come_back(client, house, db, check_audit):
    hold = client.held(house, "A-1", "A-2")["hold_id"]
    for _ in range(3):
        patch(client, hold, remove_seat_ids=["A-1"]).expect(200)
        patch(client, hold, add_seat_ids=["A-1"]).expect(200)
    assert sorted(seat_ids(client.get_hold(hold).json)) == ["A-1", "A-2"]
    client.confirm(hold).expect(200)
    check_audit(house)


def test_a_growing_hold_keeps_the_prices_it_was_given(client, admin, house):
    hold = client.held(house, "A-1")["hold_id"]
    admin.set_event(house, seats=[seat(f"A-{n}", number=n, price=5000) for n in range(1, 11)])
    assert patch(client, hold, add_seat_ids=["A-2"]).expect(200).json["amount"] == 6000


# --- release -------------------------------------------------------------------------------------------------


def test_cancel(client, other, house, db, org, redis, check_audit):
    hold = client.hold(house, "A-1", "A-2", areas=[area("floor", 2)]).expect(201).json
    ended = check_hold(client.cancel(hold["hold_id"]).expect(200).json)
    assert (ended["status"], ended["reason"]) == ("cancelled", "user_cancelled")
    assert sorted(seat_ids(ended)) == ["A-1", "A-2"]  # what it had is still told
    row = seat_row(db, org, house, "A-1")
    assert (row.status, row.hold_id, row.held_until, row.user_id) == ("available", None, None, None)
    assert area_row(db, org, house, "floor").held == 0
    assert {line.status for line in hold_lines(db, hold["hold_id"])} == {"cancelled"}
    assert actions(db, org, house, "A-1") == ["seat_held", "seat_released"]
    key = f"holdfast:{{org:{org}:event:{house}}}:seat:A-1"
    wait_until(lambda: redis.get(key) is None)
    other.held(house, "A-1", "A-2")
    check_audit(house)


def test_cancel_again_changes_nothing(client, house, db, org):
    hold = client.held(house, "A-1")["hold_id"]
    first = client.cancel(hold).expect(200).json
    entries = audit(db, org, house)
    client.as_user("user-2").held(house, "A-1")
    again = client.cancel(hold).expect(200).json
    assert {k: v for k, v in again.items() if k != "seats"} == {k: v for k, v in first.items() if k != "seats"}
    assert seat_ids(again) == ["A-1"]
    assert client.seat_status(house, "A-1") == "held"  # the next owner's
    assert len(audit(db, org, house)) == len(entries) + 1


def test_a_clients_own_words_are_kept_in_the_notes(client, house, db, org):
    hold = client.held(house, "A-1")["hold_id"]
    ended = client.cancel(hold, reason="changed my mind", notes="called at noon").expect(200).json
    assert ended["reason"] == "user_cancelled"
    assert "changed my mind" in hold_lines(db, hold)[0].notes and "called at noon" in hold_lines(db, hold)[0].notes
    assert audit(db, org, house, "A-1")[-1].reason == "user_cancelled"


@pytest.mark.parametrize("body", [{"reason": 7}, {"notes": []}, {"reason": "x" * 10_000}, {"notes": "x" * 100_000}])
def test_words_that_cannot_be(client, event, body):
    hold = client.held(event, "A-1")["hold_id"]
    check_problem(client.delete(f"/api/holds/{hold}", body), "invalid_field")
    assert client.get_hold(hold).json["status"] == "active"


def test_cancel_of_what_is_over_says_expired(client, admin, check_audit):
    event = admin.make_event(1, policy={"hold_ttl": 1})
    hold = client.held(event, "A-1")["hold_id"]
    wait_until(lambda: client.get_hold(hold).json["status"] == "expired")
    ended = check_hold(client.cancel(hold).expect(200).json)
    assert (ended["status"], ended["reason"]) == ("expired", "ttl_expired")
    check_audit(event)


def test_one_seat_of_a_hold_is_released(client, other, house, db, check_audit):
    hold = client.held(house, "A-1", "A-2", "A-3")["hold_id"]
    smaller = check_hold(client.delete(f"/api/holds/{hold}/seats/A-2").expect(200).json)
    assert smaller["status"] == "active" and sorted(seat_ids(smaller)) == ["A-1", "A-3"]
    other.held(house, "A-2")
    check_problem(client.delete(f"/api/holds/{hold}/seats/A-2"), "seat_not_found")
    assert [line.status for line in hold_lines(db, hold)].count("cancelled") == 1
    check_audit(house)


def test_the_last_seat_ends_the_hold(client, house, check_audit):
    hold = client.held(house, "A-1")["hold_id"]
    ended = check_hold(client.delete(f"/api/holds/{hold}/seats/A-1", {"reason": "x"}).expect(200).json)
    assert (ended["status"], ended["reason"]) == ("cancelled", "user_cancelled")
    check_problem(client.extend(hold), "hold_not_active")
    check_audit(house)


# --- transfer ------------------------------------------------------------------------------------------------


def test_transfer(client, other, house, db, org, check_audit):
    hold = client.hold(house, "A-1", areas=[area("floor", 1)]).expect(201).json
    moved = check_hold(transfer(client, hold["hold_id"], other.user).expect(200).json)
    assert moved["user_id"] == other.user and moved["expires_at"] == hold["expires_at"]
    assert moved["hold_id"] == hold["hold_id"]
    assert versions(moved)["A-1"] == versions(hold)["A-1"] + 1
    assert seat_row(db, org, house, "A-1").user_id == other.user
    assert actions(db, org, house, "A-1") == ["seat_held", "hold_transferred"]
    assert audit(db, org, house, "A-1")[-1].actor == client.user
    check_problem(client.get_hold(hold["hold_id"]), "hold_not_found")
    check_problem(client.cancel(hold["hold_id"]), "not_hold_owner")
    assert other.seat(house, "A-1").json["mine"] is True
    assert not client.seat(house, "A-1").json.get("mine")
    check_problem(client.hold_one(house, "A-1"), "seat_taken")
    other.confirm(hold["hold_id"]).expect(200)
    check_audit(house)


def test_transfer_by_an_agent(client, house):
    hold = client.held(house, "A-1")["hold_id"]
    agent = client.as_user("agent-1", "agent")
    assert transfer(agent, hold, "user-9").expect(200).json["user_id"] == "user-9"


def test_transfer_to_oneself_changes_nothing(client, house, db, org):
    hold = client.held(house, "A-1")
    entries = audit(db, org, house)
    assert transfer(client, hold["hold_id"], client.user).expect(200).json["seats"] == hold["seats"]
    assert audit(db, org, house) == entries


def test_transfer_may_not_give_more_than_the_limit(client, other, admin):
    event = admin.make_event(4, policy={"max_seats_per_user": 2})
    other.held(event, "A-1", "A-2")
    hold = client.held(event, "A-3")["hold_id"]
    check_problem(transfer(client, hold, other.user), "user_limit")
    assert client.get_hold(hold).json["user_id"] == client.user


@pytest.mark.parametrize("to_user, code", [("", "invalid_id"), ("a b", "invalid_id"), (7, "invalid_field"),
                                           (None, "missing_field")])
def test_transfer_to_what_is_nobody(client, event, to_user, code):
    check_problem(transfer(client, client.held(event, "A-1")["hold_id"], to_user), code)


# --- confirm -------------------------------------------------------------------------------------------------


def test_confirm(client, other, house, db, org, redis, check_audit):
    hold = client.held(house, "A-1", "A-2")
    sold = check_hold(client.confirm(hold["hold_id"]).expect(200).json)
    assert sold["status"] == "converted" and sold["amount"] == 2000
    assert sorted(ticket["seat_id"] for ticket in sold["tickets"]) == ["A-1", "A-2"]
    assert len({ticket["ticket_id"] for ticket in sold["tickets"]}) == 2
    assert versions(sold) == {name: version + 1 for name, version in versions(hold).items()}
    row = seat_row(db, org, house, "A-1")
    assert (row.status, row.hold_id, row.held_until, row.user_id) == ("sold", hold["hold_id"], None, client.user)
    assert {line.status for line in hold_lines(db, hold["hold_id"])} == {"converted"}
    assert actions(db, org, house, "A-1") == ["seat_held", "seat_sold"]
    wait_until(lambda: redis.get(f"holdfast:{{org:{org}:event:{house}}}:seat:A-1") is None)
    check_problem(other.hold_one(house, "A-1"), "seat_sold")
    check_audit(house)


def test_confirm_twice_gives_the_same_tickets(client, house, db, org):
    hold = client.held(house, "A-1")["hold_id"]
    first = client.confirm(hold).expect(200).json
    entries = audit(db, org, house)
    assert client.confirm(hold).expect(200).json == first
    assert client.get_hold(hold).json == first
    assert audit(db, org, house) == entries


def test_confirm_at_once_gives_the_same_tickets(client, house, check_audit):
    hold = client.hold(house, "A-1", "A-2", areas=[area("floor", 2)]).expect(201).json["hold_id"]
    answers = [answer.expect(200).json for answer in at_once(6, lambda _: client.confirm(hold))]
    assert len({str(answer["tickets"]) for answer in answers}) == 1
    check_audit(house)


def test_confirm_of_quantities_gives_a_ticket_each(client, house, db, org, check_audit):
    hold = client.hold(house, "A-1", areas=[area("floor", 3)]).expect(201).json["hold_id"]
    tickets = client.confirm(hold).expect(200).json["tickets"]
    assert [ticket.get("area_id") for ticket in tickets].count("floor") == 3
    assert len({ticket["ticket_id"] for ticket in tickets}) == 4
    assert area_row(db, org, house, "floor")[:3] == (10, 0, 3)
    check_audit(house)


def test_confirm_with_versions(client, house):
    hold = client.held(house, "A-1", "A-2")
    known = versions(hold)
    client.extend(hold["hold_id"]).expect(200)
    check_problem(client.confirm(hold["hold_id"], version=known), "version_conflict")
    client.confirm(hold["hold_id"], version={"A-1": known["A-1"] + 1}).expect(200)  # one of them is enough to ask


@pytest.mark.parametrize("version", [{"A-1": "1"}, {"A-1": -1}, {"A-1": None}, {"A-1": 1.5}, [], "x", {"A-1": 2**63}])
def test_confirm_with_versions_that_cannot_be(client, event, version):
    hold = client.held(event, "A-1")["hold_id"]
    check_problem(client.confirm(hold, version=version), "invalid_field")


def test_confirm_with_a_version_of_a_seat_that_is_not_in_it(client, event):
    hold = client.held(event, "A-1")["hold_id"]
    answer = client.confirm(hold, version={"A-2": 1})
    assert answer.code in ("seat_not_found", "version_conflict"), answer
    check_problem(answer, answer.code)
    assert client.get_hold(hold).json["status"] == "active"


def test_confirm_after_the_sale_has_closed(client, admin, event):
    hold = client.held(event, "A-1")["hold_id"]
    admin.set_event(event, status="closed")
    client.confirm(hold).expect(200)


def test_confirm_of_one_of_two_holds_leaves_the_other(client, house, check_audit):
    first = client.held(house, "A-1")["hold_id"]
    second = client.held(house, "A-2", cart="c2")["hold_id"]
    client.confirm(first).expect(200)
    assert client.get_hold(second).json["status"] == "active"
    check_audit(house)


# --- against each other --------------------------------------------------------------------------------------


def test_changes_at_once_leave_no_half_hold(client, admin, check_audit):
    """PATCH, extend, transfer, confirm and cancel of one hold in the same instant, 30 rounds."""
    event = admin.make_event(60)
    agent = client.as_user("agent-1", "agent")
    for number in range(1, 60, 2):
        hold = client.held(event, f"A-{number}", cart=f"c{number}")["hold_id"]
        moves = [lambda: patch(client, hold, add_seat_ids=[f"A-{number + 1}"]), lambda: client.confirm(hold),
                 lambda: client.extend(hold), lambda: transfer(agent, hold, "user-2"), lambda: agent.cancel(hold)]
        answers = at_once(5, lambda index: moves[index]())
        for answer in answers:
            assert answer.status in (200, 403, 409), answer
        end = agent.get_hold(hold).expect(200).json
        assert end["status"] in ("converted", "cancelled")
        wanted = "sold" if end["status"] == "converted" else "available"
        assert {agent.seat_status(event, name) for name in seat_ids(end)} == {wanted}
    check_audit(event)
