"""Law 2: a loser is told "taken" only because somebody durably has the seat."""

import pytest

from support.bystander import HOLD_ALL_WRITES, await_waiting, holding, trigger
from support.swarm import ask, drive, hold_shot, shot, tally, volley
from support.truth import seats_of
from support.waiting import wait_until

NODE_SETTINGS = {"request_timeout": "30s"}  # a slow machine is no fault

FAIL_FOR_DOOMED = "IF NEW.user_id LIKE 'doomed%' THEN RAISE EXCEPTION 'the test says no'; END IF; RETURN NEW;"
ROUNDS = 100


def parked(node):
    return node.metrics()["holdfast_parked"]


def race_behind_a_claim(db, database_url, node, claim, rivals):
    """The answers to a claim whose transaction is held back, and to rivals that met it in flight."""
    with holding(database_url, HOLD_ALL_WRITES) as bystander:
        first = ask(claim)
        await_waiting(db)
        waiting = [ask(rival) for rival in rivals]
        wait_until(lambda: parked(node) == len(rivals), what="the rivals are parked")
        assert first.silent()
        assert all(rival.silent() for rival in waiting)
        bystander.release()
    return first.answer(), [rival.answer() for rival in waiting]


# --- a claim in flight ---------------------------------------------------------------------------------------


def test_rivals_wait_for_a_claim_in_flight_and_hear_taken_when_it_is_committed(
        admin, client, event, db, database_url, node, prove):
    rivals = [hold_shot(admin.as_user(), event, "A-1") for _ in range(5)]
    claim, others = race_behind_a_claim(db, database_url, node, hold_shot(client, event, "A-1"), rivals)
    assert claim.status == 201
    assert tally(others) == {(409, "seat_taken"): 5}
    prove(event, [claim.json])


@pytest.mark.parametrize("deferred", [False, True], ids=["in a statement", "at commit"])
def test_when_the_claim_fails_the_first_rival_gets_the_seat(
        admin, event, db, database_url, node, org, deferred, prove):
    doomed = admin.as_user("doomed-1")
    users = [admin.as_user() for _ in range(5)]
    rivals = [hold_shot(user, event, "A-1") for user in users]
    with trigger(db, "fail_claim", "seat_holds", "AFTER INSERT", FAIL_FOR_DOOMED, deferred=deferred):
        claim, others = race_behind_a_claim(db, database_url, node, hold_shot(doomed, event, "A-1"), rivals)
    assert claim.status == 500
    assert tally(others) == {(201, None): 1, (409, "seat_taken"): 4}
    won = next(answer for answer in others if answer.status == 201)
    assert seats_of(db, org, event)["A-1"][1:] == (won.json["hold_id"], won.json["user_id"])
    prove(event, [won.json])


def test_a_rival_for_several_seats_waits_for_each_claim(admin, client, other, event, db, database_url, node, prove):
    doomed = admin.as_user("doomed-1")
    with trigger(db, "fail_claim", "seat_holds", "AFTER INSERT", FAIL_FOR_DOOMED):
        claim, (rival,) = race_behind_a_claim(
            db, database_url, node, hold_shot(doomed, event, "A-2", "A-4"),
            [hold_shot(other, event, "A-1", "A-2", "A-3", "A-4", "A-5")])
    assert claim.status == 500
    assert rival.status == 201
    claim, (rival,) = race_behind_a_claim(
        db, database_url, node, hold_shot(client, event, "A-7"), [hold_shot(other, event, "A-6", "A-7")])
    assert (claim.status, rival.code) == (201, "seat_taken")
    assert rival.json["seats"] == [{"seat_id": "A-7", "code": "seat_taken"}]
    assert client.seat_status(event, "A-6") == "available"
    prove(event)


def test_a_claim_that_is_repeated_keeps_its_rivals_waiting(admin, client, event, db, database_url, node, prove):
    """The transaction meets its lock_timeout and is run again: the rival has no answer in between."""
    before = node.metrics()["holdfast_batches_repeated_total"]
    with holding(database_url, HOLD_ALL_WRITES) as bystander:
        first = ask(hold_shot(client, event, "A-1"))
        await_waiting(db)
        rival = ask(hold_shot(admin.as_user(), event, "A-1"))
        wait_until(lambda: node.metrics()["holdfast_batches_repeated_total"] > before, what="it is repeated")
        await_waiting(db)
        assert first.silent() and rival.silent()
        bystander.release()
    assert first.answer().status == 201
    assert rival.answer().code == "seat_taken"
    prove(event)


def test_parked_requests_in_opposite_orders_do_not_wait_in_a_circle(admin, event, prove):
    """Everybody wants the same seats, each in an order of its own."""
    seats = [f"A-{n}" for n in range(1, 7)]

    def insist(number):
        user = admin.as_user()
        wanted = seats[number % 6:] + seats[:number % 6]
        for _ in range(20):
            answer = yield hold_shot(user, event, *wanted)
            if answer.status == 201:
                answer = yield shot(user, "DELETE", f"/api/holds/{answer.json['hold_id']}")
                assert answer.status == 200, answer
            else:
                assert answer.code == "seat_taken", answer
        return True

    assert all(drive([insist(number) for number in range(24)]))
    prove(event)


# --- one user, twice ---------------------------------------------------------------------------------------------


def assert_one_hold(answers, user, event, seat):
    """Two answers to one user's double click. Who met the other node's row lock asks once more, as it was told."""
    for index, answer in enumerate(answers):
        if answer.code == "seat_contended":
            assert int(answer.headers["Retry-After"]) >= 1
            answers[index] = user.hold_one(event, seat)
    assert sorted(answer.status for answer in answers) == [200, 201], answers
    assert answers[0].json["hold_id"] == answers[1].json["hold_id"]


def test_two_requests_of_one_user_in_the_same_instant_are_one_hold(admin, prove):
    event = admin.make_event(ROUNDS)
    told = []
    for n in range(1, ROUNDS + 1):
        user = admin.as_user()
        answers = volley([hold_shot(user, event, f"A-{n}")] * 2)
        assert_one_hold(answers, user, event, f"A-{n}")
        told.append(next(answer.json for answer in answers if answer.status == 201))
    prove(event, told)


def test_two_requests_of_one_user_at_two_nodes_are_one_hold(admin, start_node, prove):
    second = start_node()
    event = admin.make_event(ROUNDS)
    told = []
    for n in range(1, ROUNDS + 1):
        user = admin.as_user()
        answers = volley([hold_shot(user, event, f"A-{n}"), hold_shot(user.at(second), event, f"A-{n}")])
        assert_one_hold(answers, user, event, f"A-{n}")
        told.append(next(answer.json for answer in answers if answer.status == 201))
    prove(event, told)


def test_two_requests_of_one_user_behind_a_held_back_claim_are_one_hold(
        client, event, db, database_url, node, prove):
    claim, others = race_behind_a_claim(
        db, database_url, node, hold_shot(client, event, "A-1", "A-2"), [hold_shot(client, event, "A-1", "A-2")] * 3)
    assert claim.status == 201
    assert {(answer.status, answer.json["hold_id"]) for answer in others} == {(200, claim.json["hold_id"])}
    prove(event, [claim.json])
