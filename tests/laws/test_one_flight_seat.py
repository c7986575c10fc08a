"""Fifty passengers want one seat of a flight in the same instant: one has it, the others are told so."""

from support.cabin import flight_hold_shot, make_flight, own, states
from support.swarm import tally, volley
from support.truth import seats_of

NODE_SETTINGS = {"request_timeout": "30s"}  # a slow machine is no fault
PASSENGERS = 50


def the_one(answers, passengers):
    assert sorted(answer.status for answer in answers) == [200] + [409] * (PASSENGERS - 1), tally(answers)
    [(winner, hold)] = [(passenger, answer.json) for passenger, answer in zip(passengers, answers) if answer.status == 200]
    assert (hold["seatId"], hold["state"]) == ("1A", "HELD")
    return winner, hold


def judge(db, org, flight, prove, winner, hold, passengers):
    assert seats_of(db, org, flight)["1A"] == ("held", hold["holdId"], winner.user)
    assert states(winner, flight) == {"1A": "HELD"}
    assert [passenger for passenger in passengers if own(passenger, flight)] == [winner]
    prove(flight, [winner.get_hold(hold["holdId"]).expect(200).json])


def test_of_fifty_passengers_at_once_one_has_the_seat(admin, db, org, prove):
    flight = make_flight(admin)
    passengers = [admin.as_user() for _ in range(PASSENGERS)]
    answers = volley([flight_hold_shot(passenger, flight, "1A", passengerId=passenger.user) for passenger in passengers])
    assert {answer.code for answer in answers if answer.status == 409} == {"seat_taken"}
    judge(db, org, flight, prove, *the_one(answers, passengers), passengers)


def test_of_fifty_passengers_at_two_nodes_one_has_the_seat(admin, node, start_node, db, org, prove):
    flight = make_flight(admin)
    nodes = [node, start_node(**NODE_SETTINGS)]
    passengers = [admin.as_user().at(nodes[n % 2]) for n in range(PASSENGERS)]
    answers = volley([flight_hold_shot(passenger, flight, "1A") for passenger in passengers])
    # Whoever met the other node's row lock may be told so: not known to be taken.
    assert {answer.code for answer in answers if answer.status == 409} <= {"seat_taken", "seat_contended"}
    winner, hold = the_one(answers, passengers)
    assert seats_of(db, org, flight)["1A"] == ("held", hold["holdId"], winner.user)
    prove(flight, [winner.get_hold(hold["holdId"]).expect(200).json])
