"""A thousand users want one seat in the same instant."""

from support.swarm import hold_shot, tally, volley
from support.truth import seats_of

NODE_SETTINGS = {"request_timeout": "30s"}  # a slow machine is no fault
USERS = 1000


def the_winner(answers):
    won = [answer for answer in answers if answer.status == 201]
    assert len(won) == 1, tally(answers)
    return won[0]


def test_of_a_thousand_users_at_once_one_gets_the_seat(admin, event, db, org, prove):
    answers = volley([hold_shot(admin.as_user(), event, "A-1") for _ in range(USERS)])
    assert tally(answers) == {(201, None): 1, (409, "seat_taken"): USERS - 1}
    hold = the_winner(answers).json
    assert seats_of(db, org, event)["A-1"] == ("held", hold["hold_id"], hold["user_id"])
    prove(event, [hold])


def test_of_a_thousand_users_at_two_nodes_one_gets_the_seat(admin, node, start_node, event, db, org, prove):
    nodes = [node, start_node(**NODE_SETTINGS)]
    answers = volley([hold_shot(admin.as_user().at(nodes[n % 2]), event, "A-1") for n in range(USERS)])
    winner = the_winner(answers)
    here = winner.headers["X-Holdfast-Node"]
    for answer in answers:
        if answer is not winner:
            # Whoever met the other node's row lock may be told so; the winner's own node knows better.
            allowed = {"seat_taken"} if answer.headers["X-Holdfast-Node"] == here else {"seat_taken", "seat_contended"}
            assert answer.status == 409 and answer.code in allowed, answer
    hold = winner.json
    assert seats_of(db, org, event)["A-1"] == ("held", hold["hold_id"], hold["user_id"])
    prove(event, [hold])


def test_a_thousand_users_want_two_seats_of_which_one_is_taken(admin, client, event, prove):
    """All or nothing, also in a crowd: nobody gets the free half."""
    first = client.held(event, "A-2")
    answers = volley([hold_shot(admin.as_user(), event, "A-1", "A-2") for _ in range(USERS)])
    assert tally(answers) == {(409, "seat_taken"): USERS}
    assert client.seat_status(event, "A-1") == "available"
    prove(event, [first])


def test_a_crowd_with_an_idempotency_key_each(admin, event, prove):
    """A request with a key is never refused from memory alone: each has its own transaction."""
    shots = [hold_shot(admin.as_user(), event, "A-1", headers={"Idempotency-Key": f"key-{n}"}) for n in range(100)]
    answers = volley(shots)
    won = the_winner(answers)
    assert tally(answers) == {(201, None): 1, (409, "seat_taken"): 99}
    again = volley(shots)
    assert [answer.body for answer in again] == [answer.body for answer in answers]
    prove(event, [won.json])
