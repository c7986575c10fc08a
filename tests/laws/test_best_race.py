"""Many ask for the best seats at once: each gets others, nobody waits for anybody, and the house is sold to the last
seats that fit. HOLDFAST_LONG=1 sells the issue's house: 12,000 seats, 5,000 requests from 500 connections."""

import collections
import concurrent.futures
import contextlib
import random
import time

import pytest

from support.best import best, best_shot, chosen, groups, hall, place_of, windows
from support.bystander import all_rows, execute
from support.client import seat
from support.contract import check_problem, seat_ids
from support.house import LONG
from support.swarm import allow_descriptors, drive, hold_shot, tally, volley
from support.tables import seat_locked
from support.truth import seats_of
from support.waiting import wait_until

NODE_SETTINGS = {"request_timeout": "30s"}  # a slow machine is no fault

ROWS, WIDTH, REQUESTS, CONNECTIONS = (300, 40, 5000, 500) if LONG else (50, 40, 1000, 100)


@pytest.fixture(params=["one node", "two nodes"])
def nodes(request, node, start_node):
    return [node, node] if request.param == "one node" else [node, start_node(**NODE_SETTINGS)]


def big_house(rows, width):
    """A fan of rows around the stage, the aisle in the middle."""
    seats = []
    for row in range(rows):
        for number in range(1, width + 1):
            one = seat(f"{row}-{number}", section=f"block-{row // 25}", row=row, number=number,
                       x=number - width / 2 - 0.5, y=1.1 * row)
            if number == width // 2:
                one["attributes"] = {"aisle_after": True}
            seats.append(one)
    return seats


def free_seats(db, org, event):
    return {one for one, (status, _, _) in seats_of(db, org, event).items() if status == "available"}


def assert_apart(holds):
    """No seat was told twice."""
    told = collections.Counter(one["seat_id"] for hold in holds for one in hold["seats"])
    assert not [one for one, times in told.items() if times > 1]


# --- everybody at once ----------------------------------------------------------------------------------------


def test_two_hundred_at_once_get_two_seats_each(admin, nodes, db, org, prove):
    event = admin.make_event(hall(10, 40, coordinates=False))
    answers = volley([best_shot(admin.as_user().at(nodes[n % 2]), event, 2) for n in range(200)])
    assert tally(answers) == {(201, None): 200}
    holds = [answer.json for answer in answers]
    assert_apart(holds)
    assert all(groups(chosen(answer)) == 1 for answer in answers)
    assert not free_seats(db, org, event)
    prove(event, holds)


def test_more_than_there_are_seats(admin, nodes, db, org, prove):
    """As many are told "sold out" as there are no seats for, and only when all of them are somebody's."""
    event = admin.make_event(hall(4, 25))
    answers = volley([best_shot(admin.as_user().at(nodes[n % 2]), event, 1) for n in range(300)])
    assert tally(answers) == {(201, None): 100, (409, "sold_out"): 200}
    assert not free_seats(db, org, event)
    prove(event, [answer.json for answer in answers if answer.status == 201])


def test_a_crowd_with_an_idempotency_key_each(admin, nodes, prove):
    event = admin.make_event(hall(5, 20, coordinates=False))
    users = [admin.as_user() for _ in range(60)]
    shots = [best_shot(user.at(nodes[n % 2]), event, 2, headers={"Idempotency-Key": f"key-{n}"})
             for n, user in enumerate(users)]
    answers = volley(shots)
    assert tally(answers) == {(201, None): 50, (409, "sold_out"): 10}
    again = volley(shots)
    assert [answer.body for answer in again] == [answer.body for answer in answers]
    prove(event, [answer.json for answer in answers if answer.status == 201])


def test_one_key_many_times_at_once_is_one_hold(admin, client, nodes, prove):
    event = admin.make_event(hall(2, 20))
    answers = volley([best_shot(client.at(nodes[n % 2]), event, 3, headers={"Idempotency-Key": "k"})
                      for n in range(30)])
    assert len({answer.body for answer in answers if answer.status == 201}) == 1
    assert all(answer.status == 201 or answer.code == "request_in_progress" for answer in answers), tally(answers)
    prove(event, [next(answer.json for answer in answers if answer.status == 201)])


def test_beside_plain_holds_of_the_same_seats(admin, nodes, db, org, prove):
    """Who names the seats and who doesn't: nobody gets a seat twice, and none is left while somebody wants one."""
    event = admin.make_event(hall(5, 20))
    names = [f"{row}-{number}" for row in "ABCDE" for number in range(1, 21)]
    plain = [hold_shot(admin.as_user().at(nodes[n % 2]), event, name) for n, name in enumerate(names[::2])]
    any_one = [best_shot(admin.as_user().at(nodes[n % 2]), event, 1) for n in range(100)]
    answers = volley([shot for pair in zip(plain, any_one[::2], any_one[1::2]) for shot in pair])
    holds = [answer.json for answer in answers if answer.status == 201]
    assert_apart(holds)
    assert len(holds) == 100 and not free_seats(db, org, event)
    of_plain, of_any = answers[::3], answers[1::3] + answers[2::3]
    assert {answer.code for answer in of_any} <= {None, "sold_out"}, tally(of_any)
    assert {answer.code for answer in of_plain} <= {None, "seat_taken", "seat_contended"}, tally(of_plain)
    prove(event, holds)


# --- nobody is waited for -----------------------------------------------------------------------------------------


def test_a_locked_row_is_passed_over(admin, nodes, database_url, db, org, prove):
    """The best seats' rows are locked by somebody who takes his time: all are answered while he still does."""
    event = admin.make_event(hall(2, 20, coordinates=False))
    locked = ["A-1", "A-2", "A-3"]
    with seat_locked(database_url, org, event, *locked):
        answers = volley([best_shot(admin.as_user().at(nodes[n % 2]), event, 2) for n in range(15)])
        assert tally(answers) == {(201, None): 15}
    holds = [answer.json for answer in answers]
    assert_apart(holds)
    assert free_seats(db, org, event) > set(locked)
    # The lock is gone, and soon so are the doubts about these seats.
    def again():
        user = admin.as_user()
        holds.append(best(user, event, 3).expect(201).json)
        is_back = {one["seat_id"] for one in holds[-1]["seats"]} == set(locked)
        return is_back or not user.cancel(holds[-1]["hold_id"]).expect(200)

    wait_until(again, what="they are the best again")
    assert not free_seats(db, org, event) & set(locked)
    prove(event, holds)


def test_what_is_locked_is_not_called_sold(admin, client, node, database_url, org, prove):
    """Nothing else is left: whoever locks it may leave it, so "sold out" would not be true."""
    event = admin.make_event(2)
    waited = lambda: node.metrics()["holdfast_best_waited_total"]  # noqa: E731
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with seat_locked(database_url, org, event, "A-1", "A-2"):
            before = waited()
            answer = pool.submit(best, client, event, 2)
            wait_until(lambda: waited() >= before + 3, timeout=20, what="it looks again and again")
            assert not answer.done()
        hold = answer.result().expect(201).json
    assert seat_ids(hold) == ["A-1", "A-2"]
    prove(event, [hold])


def test_what_stays_locked_is_contended(admin, start_node, database_url, org):
    node = start_node(request_timeout="3s")
    event = admin.make_event(2)
    with seat_locked(database_url, org, event, "A-1"):
        answer = best(admin.as_user().at(node), event, 2)
    check_problem(answer, "seat_contended")
    assert answer.headers["Retry-After"]
    assert chosen(best(admin.as_user().at(node), event, 2)) == ["A-1", "A-2"]


def test_what_only_the_rule_leaves_beside_locked_seats_is_contended(admin, start_node, database_url, org):
    """Of three in a row the outer ones are locked, and the middle one alone would leave both alone: nobody can say yet
    that nothing fits."""
    node = start_node(request_timeout="6s")
    event = admin.make_event(3, policy={"no_single_seat_gap": True})
    with seat_locked(database_url, org, event, "A-1", "A-3"):
        answer = best(admin.as_user().at(node), event, 1)
    check_problem(answer, "seat_contended")


def test_who_waits_beside_locked_seats_gets_one_when_they_are_free(admin, client, node, database_url, org, prove):
    event = admin.make_event(3, policy={"no_single_seat_gap": True})
    lost = lambda: node.metrics()["holdfast_best_lost_total"]  # noqa: E731
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with seat_locked(database_url, org, event, "A-1", "A-3"):
            before = lost()
            answer = pool.submit(best, client, event, 1)
            wait_until(lambda: lost() >= before + 30, timeout=20, what="it tries again and again")
            assert not answer.done()
        hold = answer.result().expect(201).json
    assert seat_ids(hold) in (["A-1"], ["A-3"])
    prove(event, [hold])


@contextlib.contextmanager
def by_hand(db, org, event, statement, *seats):
    """Changes rows of seats, and puts them right at the end: what is proved of this database goes on."""
    these = "WHERE org_id = %s AND event_id = %s AND seat_id = ANY(%s)"
    of = (org, event, list(seats))
    execute(db, f"CREATE TEMP TABLE kept AS SELECT * FROM seats {these}", of)
    execute(db, f"{statement} {these}", of)
    try:
        yield
    finally:
        execute(db, f"DELETE FROM seats {these}", of)
        execute(db, "INSERT INTO seats SELECT * FROM kept; DROP TABLE kept")


@pytest.mark.parametrize("change", ["status = 'blocked', version = version + 1", "status = 'blocked'",
                                    "status = 'removed', version = version + 1"])
def test_a_map_that_missed_a_change_learns_it_from_a_lost_race(admin, client, other, node, db, org, change):
    """The last seats were changed by hand, and nobody told the map."""
    event = admin.make_event(4)
    assert chosen(best(client, event, 2)) == ["A-1", "A-2"]
    with by_hand(db, org, event, f"UPDATE seats SET {change}", "A-3", "A-4"):
        lost = node.metrics()["holdfast_best_lost_total"]
        check_problem(best(other, event, 2), "sold_out")
        assert node.metrics()["holdfast_best_lost_total"] <= lost + 2


def test_a_map_that_has_a_seat_too_many_is_read_again(admin, client, other, db, org):
    event = admin.make_event(3)
    assert chosen(best(client, event, 2)) == ["A-1", "A-2"]
    with by_hand(db, org, event, "DELETE FROM seats", "A-3"):
        check_problem(best(other, event, 1), "sold_out")


# --- a house ----------------------------------------------------------------------------------------------------------


def buyer(users, event, dice, wishes, told):
    """One connection: asks for parties of one to four, one after the other, while there are any left."""
    for user in users:
        if not wishes:
            return
        quantity = wishes.pop()
        adjacent = dice.random() < 0.8
        answer = yield best_shot(user, event, quantity, adjacent=adjacent)
        told.append((quantity, adjacent, answer, time.time()))


def last_places(db, org, event, seats):
    """{size: when the last place for so many side by side was taken}: seats are only taken, never given back."""
    free = set(seats)
    left = {size: sum(fits_aisle(window) for window in windows(free, size)) for size in range(1, 5)}
    gone = dict.fromkeys((size for size in left if left[size] == 0), 0.0)
    for taken, at in all_rows(db, """
            SELECT seat_id, extract(epoch FROM at)::float8 FROM audit_log
            WHERE org_id = %s AND event_id = %s AND action = 'seat_held' ORDER BY at""", (org, event)):
        row, number = place_of(taken)
        for size in left:
            for first in range(number - size + 1, number + 1):
                window = [f"{row}-{n}" for n in range(first, first + size)]
                if all(one in free for one in window) and fits_aisle(window):
                    left[size] -= 1
            if left[size] == 0:
                gone.setdefault(size, at)
        free.remove(taken)
    return gone


def fits_aisle(window):
    """The aisle is in the middle of each row."""
    numbers = [place_of(one)[1] for one in window]
    return not min(numbers) <= WIDTH // 2 < max(numbers)


def test_a_house_is_sold_to_the_last_seats_that_fit(admin, nodes, db, org, prove):
    allow_descriptors()
    seats = big_house(ROWS, WIDTH)
    event = admin.make_event([], policy={"hold_ttl": 900})
    for start in range(0, len(seats), 2000):
        admin.set_event(event, seats=seats[start:start + 2000])
    dice = random.Random(5)
    wishes, told = [dice.randint(1, 4) for _ in range(REQUESTS)], []
    drive([buyer([admin.as_user().at(nodes[n % 2]) for _ in range(3 * REQUESTS // CONNECTIONS)], event, dice, wishes,
                 told) for n in range(CONNECTIONS)], timeout=600)
    assert len(told) == REQUESTS
    holds = [answer.json for _, _, answer, _ in told if answer.status == 201]
    assert_apart(holds)
    beside = [chosen(answer) for _, adjacent, answer, _ in told if answer.status == 201 and adjacent]
    assert all(groups(seats) == 1 and fits_aisle(seats) for seats in beside)
    refused = [one for one in told if one[2].status != 201]
    assert {answer.code for _, _, answer, _ in refused} <= {"sold_out", "no_adjacent_seats"}, \
        tally(answer for _, _, answer, _ in told)

    # What is left goes to parties that ask until there is no place for them.
    last = admin.as_user()
    for quantity in (4, 3, 2, 1):
        while (answer := best(last.at(nodes[quantity % 2]), event, quantity)).status == 201:
            holds.append(answer.json)
        assert answer.code in ("sold_out", "no_adjacent_seats"), answer
    assert not free_seats(db, org, event)
    assert_apart(holds)

    # Who was refused places side by side was refused when none were left.
    gone = last_places(db, org, event, [one["seat_id"] for one in seats])
    early = [(quantity, at) for quantity, adjacent, _, at in refused if adjacent and at < gone[quantity]]
    assert not early, f"{len(early)} of {len(refused)} were refused while there were places, of {len(told)}"
    prove(event, holds)
