"""Two changes meet at one hold, very many times, at one node and at two: never half a hold, never a lost change.

A round has a hold and seats of its own. Many rounds run side by side, so that the two changes meet in one batch, in
two batches, at two workers and at two nodes.
"""

import collections
import datetime

import pytest

from support.bystander import HOLD_ALL_WRITES, all_rows, await_waiting, holding
from support.swarm import ask, drive, hold_shot, shot
from support.waiting import wait_until

NODE_SETTINGS = {"request_timeout": "30s"}  # a slow machine is no fault
ROUNDS = 1000
FEWER = 300  # of the less delicate pairs
LANES = 20  # rounds that run side by side

POLICY = {"hold_ttl": 300, "extend_by": 10, "max_hold": 3600}

Round = collections.namedtuple("Round", "seats hold answers")  # the hold as it was told first; both answers


@pytest.fixture(params=["one node", "two nodes"])
def nodes(request, node, start_node):
    """The nodes that the two changes go to."""
    return (node, node) if request.param == "one node" else (node, start_node(**NODE_SETTINGS))


def run_rounds(admin, event, nodes, seats_each, held, changes, rounds=ROUNDS):
    """`rounds` rounds: `held` of `seats_each` seats are held, then changes(user, hold, seats) -> two shots.

    Which of the two goes to which node, and which is sent first, changes from round to round.
    """
    def lane(number):
        user = admin.as_user(f"owner-{number}")
        done = []
        for index in range(number, rounds, LANES):
            seats = [f"A-{index * seats_each + n + 1}" for n in range(seats_each)]
            answer = yield hold_shot(user, event, *seats[:held], cart=f"cart-{index}")
            hold = answer.expect(201).json
            first, second = nodes if index % 4 < 2 else nodes[::-1]
            pair = changes(user, first, second, hold, seats)
            if index % 2:
                pair = pair[::-1]
            answers = yield pair
            done.append(Round(seats, hold, answers[::-1] if index % 2 else answers))
        return done

    lanes = drive([lane(number) for number in range(LANES)], timeout=120)
    return [each for done in lanes for each in done]


def change(user, node, hold, what, json=None):
    return shot(user.at(node), "POST", f"/api/holds/{hold['hold_id']}/{what}", json or {})


def patch(user, node, hold, **what):
    return shot(user.at(node), "PATCH", f"/api/holds/{hold['hold_id']}", what)


def said(answer):
    return (answer.status, answer.code)


def table(db, org, event):
    """{seat: (status, user, version, held_until)}"""
    return {row[0]: row[1:] for row in all_rows(db, """
        SELECT seat_id, status::text, user_id, version, held_until FROM seats
        WHERE org_id = %s AND event_id = %s""", (org, event))}


def statuses_of(rows, seats):
    return [rows[seat][0] for seat in seats]


def ends(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


# --- what may come of two changes ----------------------------------------------------------------------------------


def test_adding_a_seat_against_confirm(admin, nodes, db, org, prove):
    event = admin.make_event(2 * ROUNDS, policy=POLICY)
    rounds = run_rounds(admin, event, nodes, 2, 1, lambda user, here, there, hold, seats: [
        patch(user, here, hold, add_seat_ids=seats[1:]), change(user, there, hold, "confirm")])
    rows = table(db, org, event)
    seen = collections.Counter()
    for seats, _, (added, confirmed) in rounds:
        assert said(confirmed) == (200, None)
        tickets = {ticket["seat_id"] for ticket in confirmed.json["tickets"]}
        if added.status == 200:
            assert tickets == set(seats)
            assert statuses_of(rows, seats) == ["sold", "sold"]
        else:
            assert said(added) in {(409, "hold_not_active"), (409, "seat_contended")}, added
            assert tickets == {seats[0]}
            assert statuses_of(rows, seats) == ["sold", "available"]
        seen[said(added)] += 1
    assert seen[200, None] and seen[409, "hold_not_active"], f"they never met: {seen}"
    prove(event)


def test_extend_against_transfer(admin, nodes, db, org, prove):
    event = admin.make_event(2 * ROUNDS, policy=POLICY)
    rounds = run_rounds(admin, event, nodes, 2, 2, lambda user, here, there, hold, seats: [
        change(user, here, hold, "extend"),
        change(user, there, hold, "transfer", {"to_user_id": f"heir-of-{user.user}"})])
    rows = table(db, org, event)
    seen = collections.Counter(said(extended) for _, _, (extended, _) in rounds)
    for seats, hold, (extended, given) in rounds:
        assert said(given) == (200, None)
        assert said(extended) in {(200, None), (403, "not_hold_owner")}
        longer = extended.status == 200
        end = ends(hold["expires_at"]) + datetime.timedelta(seconds=10 if longer else 0)
        for seat, told in zip(seats, hold["seats"]):
            status, user, version, until = rows[seat]
            assert (status, user, version) == ("held", f"heir-of-{hold['user_id']}", told["version"] + 1 + longer)
            assert abs(until - end) < datetime.timedelta(milliseconds=1)
    assert len(seen) == 2, f"they never met: {seen}"
    prove(event)


def test_two_extends(admin, nodes, db, org, prove):
    event = admin.make_event(ROUNDS, policy=POLICY)
    rounds = run_rounds(admin, event, nodes, 1, 1, lambda user, here, there, hold, seats: [
        change(user, here, hold, "extend"), change(user, there, hold, "extend")])
    rows = table(db, org, event)
    for (seat,), hold, answers in rounds:
        assert [said(answer) for answer in answers] == [(200, None)] * 2
        told = sorted(ends(answer.json["expires_at"]) for answer in answers)
        first = ends(hold["expires_at"])
        assert [round((end - first).total_seconds()) for end in told] == [10, 20], "an extension was lost"
        _, _, version, until = rows[seat]
        assert version == hold["seats"][0]["version"] + 2
        assert abs(until - told[1]) < datetime.timedelta(milliseconds=1)
    prove(event)


def test_two_extends_that_wait_for_one_batch(client, admin, start_node, db, org, database_url, prove):
    """Each but the first is left for a later batch: one statement would apply one of them and drop the others."""
    node = start_node(workers=1, **NODE_SETTINGS)
    event = admin.make_event(3, policy=POLICY)
    hold = client.held(event, "A-1", "A-2")
    with holding(database_url, HOLD_ALL_WRITES) as bystander:
        plug = ask(hold_shot(admin.as_user().at(node), event, "A-3"))
        await_waiting(db)
        wires = [ask(change(client, node, hold, "extend")) for _ in range(3)]
        wait_until(lambda: node.metrics()["holdfast_queue_depth"] == 3, what="they wait for one batch")
        bystander.release()
    plug.answer().expect(201)
    told = sorted(ends(wire.answer().expect(200).json["expires_at"]) for wire in wires)
    first = ends(hold["expires_at"])
    assert [round((end - first).total_seconds()) for end in told] == [10, 20, 30]
    assert abs(table(db, org, event)["A-1"][3] - told[2]) < datetime.timedelta(milliseconds=1)
    prove(event)


def test_confirm_against_cancel(admin, nodes, db, org, prove):
    event = admin.make_event(2 * FEWER, policy=POLICY)
    rounds = run_rounds(admin, event, nodes, 2, 2, lambda user, here, there, hold, seats: [
        change(user, here, hold, "confirm"), shot(user.at(there), "DELETE", f"/api/holds/{hold['hold_id']}")],
        rounds=FEWER)
    rows = table(db, org, event)
    for seats, _, (confirmed, cancelled) in rounds:
        outcome = {("available", "available"): ((409, "hold_not_active"), (200, None)),
                   ("sold", "sold"): ((200, None), (409, "hold_not_active"))}
        assert outcome[tuple(statuses_of(rows, seats))] == (said(confirmed), said(cancelled))
    prove(event)


def test_removing_a_seat_against_confirm(admin, nodes, db, org, prove):
    event = admin.make_event(2 * FEWER, policy=POLICY)
    rounds = run_rounds(admin, event, nodes, 2, 2, lambda user, here, there, hold, seats: [
        shot(user.at(here), "DELETE", f"/api/holds/{hold['hold_id']}/seats/{seats[1]}"),
        change(user, there, hold, "confirm")],
        rounds=FEWER)
    rows = table(db, org, event)
    for seats, _, (removed, confirmed) in rounds:
        assert said(confirmed) == (200, None)
        tickets = [ticket["seat_id"] for ticket in confirmed.json["tickets"]]
        if removed.status == 200:
            assert (statuses_of(rows, seats), tickets) == (["sold", "available"], seats[:1])
        else:
            assert said(removed) == (409, "hold_not_active")
            assert (statuses_of(rows, seats), sorted(tickets)) == (["sold", "sold"], sorted(seats))
    prove(event)


def test_two_confirms_give_the_same_tickets(admin, nodes, db, org, prove):
    event = admin.make_event(FEWER, policy=POLICY)
    rounds = run_rounds(admin, event, nodes, 1, 1, lambda user, here, there, hold, seats: [
        change(user, here, hold, "confirm"), change(user, there, hold, "confirm")],
        rounds=FEWER)
    for _, _, (one, two) in rounds:
        assert (said(one), said(two)) == ((200, None), (200, None))
        assert one.json["tickets"] == two.json["tickets"] and len(one.json["tickets"]) == 1
    assert set(statuses_of(table(db, org, event), [f"A-{n + 1}" for n in range(FEWER)])) == {"sold"}
    prove(event)


def test_two_patches_that_add_different_seats(admin, nodes, db, org, prove):
    event = admin.make_event(3 * FEWER, policy=POLICY)
    rounds = run_rounds(admin, event, nodes, 3, 1, lambda user, here, there, hold, seats: [
        patch(user, here, hold, add_seat_ids=seats[1:2]), patch(user, there, hold, add_seat_ids=seats[2:])],
        rounds=FEWER)
    rows = table(db, org, event)
    for seats, hold, answers in rounds:
        assert [said(answer) for answer in answers] == [(200, None)] * 2
        assert statuses_of(rows, seats) == ["held"] * 3
        assert {rows[seat][3] for seat in seats} == {rows[seats[0]][3]}, "one end for all seats of a hold"
        assert max(len(answer.json["seats"]) for answer in answers) == 3
    prove(event)
