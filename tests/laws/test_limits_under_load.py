"""What a rule counts beyond the seat holds when everything comes at once: a user's limit, one hold each, an area."""

import collections
import random

import pytest

from support.bystander import all_rows
from support.swarm import drive, hold_shot, shot, tally
from support.truth import seats_of

NODE_SETTINGS = {"request_timeout": "30s"}  # a slow machine is no fault
USERS = 30
TRIES = 8
LIMIT = 4


@pytest.fixture(params=["one node", "two nodes"])
def nodes(request, node, start_node):
    return [node, node] if request.param == "one node" else [node, start_node(**NODE_SETTINGS)]


def each_at_once(users, shots_of):
    """Every user fires all their shots in one instant; the answers per user."""
    def fire(index):
        answers = yield shots_of(index, users[index])
        return answers

    return drive([fire(index) for index in range(len(users))])


def units_of(db, org, event):
    """{user: seats and quantities that are held}"""
    return dict(all_rows(db, """
        SELECT user_id, sum(quantity)::int FROM seat_holds
        WHERE org_id = %s AND event_id = %s AND status = 'active' GROUP BY 1""", (org, event)))


def counts_of(db, org, event):
    """(held, sold) of the event's only area"""
    row, = all_rows(db, "SELECT held, sold FROM areas WHERE org_id = %s AND event_id = %s", (org, event))
    return row


def insist(answers_of, users, again):
    """Who was told `seat_contended` asks again until it is decided: they were not refused."""
    for user, answers in zip(users, answers_of):
        for place, answer in enumerate(answers):
            while answer.code == "seat_contended":
                (answer,), = each_at_once([user], lambda _index, _user: [again(user, place)])
            answers[place] = answer


def assert_exactly(answers_of, users, db, org, event):
    for answers in answers_of:
        assert tally(answers) == {(201, None): LIMIT, (422, "user_limit"): TRIES - LIMIT}
    assert units_of(db, org, event) == {user.user: LIMIT for user in users}


def test_eight_holds_at_once_under_a_limit_of_four_seats(admin, nodes, db, org, prove):
    event = admin.make_event(USERS * TRIES, policy={"max_seats_per_user": LIMIT})
    users = [admin.as_user() for _ in range(USERS)]

    def fire(index, place):
        user = users[index].at(nodes[place % 2])
        return hold_shot(user, event, f"A-{index * TRIES + place + 1}", cart=f"cart-{place}")

    answers_of = each_at_once(users, lambda index, _user: [fire(index, place) for place in range(TRIES)])
    insist(answers_of, users, lambda user, place: fire(users.index(user), place))
    assert_exactly(answers_of, users, db, org, event)
    prove(event, [answer.json for answers in answers_of for answer in answers if answer.status == 201])


def test_eight_holds_at_once_under_a_limit_of_four_of_an_area(admin, nodes, db, org, prove):
    event = admin.make_event(0, areas=[{"area_id": "floor", "name": "Floor", "capacity": 10 * USERS}],
                             policy={"max_seats_per_user": LIMIT})
    users = [admin.as_user() for _ in range(USERS)]

    def fire(user, place):
        return hold_shot(user.at(nodes[place % 2]), event, areas=[{"area_id": "floor", "quantity": 1}],
                         cart=f"cart-{place}")

    answers_of = each_at_once(users, lambda _index, user: [fire(user, place) for place in range(TRIES)])
    insist(answers_of, users, fire)
    assert_exactly(answers_of, users, db, org, event)
    assert counts_of(db, org, event) == (LIMIT * USERS, 0)
    prove(event)


def test_seats_and_areas_count_together(admin, nodes, db, org, prove):
    event = admin.make_event(USERS * TRIES, areas=[{"area_id": "floor", "name": "Floor", "capacity": 10 * USERS}],
                             policy={"max_seats_per_user": LIMIT})
    users = [admin.as_user() for _ in range(USERS)]

    def fire(user, place):
        user, index = user.at(nodes[place // 2 % 2]), users.index(user)
        if place % 2:
            return hold_shot(user, event, areas=[{"area_id": "floor", "quantity": 1}], cart=f"cart-{place}")
        return hold_shot(user, event, f"A-{index * TRIES + place + 1}", cart=f"cart-{place}")

    answers_of = each_at_once(users, lambda _index, user: [fire(user, place) for place in range(TRIES)])
    insist(answers_of, users, fire)
    assert_exactly(answers_of, users, db, org, event)
    prove(event)


def test_one_hold_per_user_whatever_comes_at_once(admin, nodes, db, org, prove):
    """A new hold takes the place of the old one in the same transaction: in the end each user has exactly one."""
    event = admin.make_event(USERS * TRIES, policy={"one_hold_per_user": True})
    users = [admin.as_user() for _ in range(USERS)]
    answers_of = each_at_once(users, lambda index, user: [
        hold_shot(user.at(nodes[place % 2]), event, f"A-{index * TRIES + place + 1}", cart=f"cart-{place}")
        for place in range(TRIES)])
    for answers in answers_of:
        assert {answer.status for answer in answers} <= {201, 409}, tally(answers)
        assert any(answer.status == 201 for answer in answers)
        assert all(answer.code == "seat_contended" for answer in answers if answer.status == 409)
    assert units_of(db, org, event) == {user.user: 1 for user in users}
    assert [status for status, *_ in seats_of(db, org, event).values()].count("held") == USERS
    prove(event, [answer.json for answers in answers_of for answer in answers if answer.status == 201])


# --- areas ---------------------------------------------------------------------------------------------------

CAPACITY = 500
BUYERS = 1500


def test_a_hot_area_is_filled_to_the_last_place_and_not_beyond(admin, nodes, db, org, prove):
    event = admin.make_event(0, areas=[{"area_id": "floor", "name": "Floor", "capacity": CAPACITY}])
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    quantities = [draw.choice([1, 1, 2, 2, 3, 4, 6, 8]) for _ in range(BUYERS)]

    def buy(number):
        user = admin.as_user().at(nodes[number % 2])
        answer = yield hold_shot(user, event, areas=[{"area_id": "floor", "quantity": quantities[number]}])
        return answer

    answers = drive([buy(number) for number in range(BUYERS)])
    assert set(tally(answers)) == {(201, None), (409, "area_full")}, tally(answers)
    granted = sum(n for n, answer in zip(quantities, answers) if answer.status == 201)
    refused = [n for n, answer in zip(quantities, answers) if answer.status == 409]
    assert granted <= CAPACITY < granted + min(refused), "a request that fits was refused"
    assert counts_of(db, org, event) == (granted, 0)
    lines = collections.Counter(dict(all_rows(db, """
        SELECT hold_id::text, quantity FROM seat_holds WHERE org_id = %s AND event_id = %s""", (org, event))))
    assert lines == {answer.json["hold_id"]: n for n, answer in zip(quantities, answers) if answer.status == 201}
    prove(event)


def test_an_area_that_is_bought_and_given_back_without_end_never_goes_wrong(admin, nodes, db, org, prove):
    """Holds, resizes, cancels and sales of one hot area: its counts are what the lines add up to."""
    event = admin.make_event(0, areas=[{"area_id": "floor", "name": "Floor", "capacity": 60}])
    allowed = {(201, None), (200, None), (409, "area_full"), (409, "seat_contended")}

    def shop(number):
        user, draw = admin.as_user().at(nodes[number % 2]), random.Random(number)
        told = collections.Counter()
        for turn in range(15):
            answer = yield hold_shot(user, event, cart=f"cart-{turn}",
                                     areas=[{"area_id": "floor", "quantity": draw.randint(1, 8)}])
            told[answer.status, answer.code] += 1
            if answer.status != 201:
                continue
            path = f"/api/holds/{answer.json['hold_id']}"
            answer = yield shot(user, "PATCH", path, {"areas": [{"area_id": "floor", "quantity": draw.randint(1, 8)}]})
            told[answer.status, answer.code] += 1
            if turn == 14 and number % 4 == 0:
                answer = yield shot(user, "POST", f"{path}/confirm", {})
            else:
                answer = yield shot(user, "DELETE", path)
            told[answer.status, answer.code] += 1
            assert answer.status == 200, answer
        return told

    told = sum(drive([shop(number) for number in range(60)]), collections.Counter())
    assert set(told) <= allowed, told
    held, sold = counts_of(db, org, event)
    assert held == 0
    assert [(sold,)] == all_rows(db, """
        SELECT coalesce(sum(quantity), 0) FROM seat_holds
        WHERE org_id = %s AND event_id = %s AND status = 'converted'""", (org, event))
    prove(event)
