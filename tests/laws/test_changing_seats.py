"""A confirmed passenger who changes seats never stands without one, and never owns two after it ended.

Somebody looks into Postgres all the time: whatever is going on, each snapshot has one sold seat of each passenger.
"""

import collections
import contextlib
import random
import threading

import psycopg2
import pytest

from support.bystander import HOLD_ALL_WRITES, all_rows, await_waiting, holding
from support.checkouts import complete_shot, start_shot
from support.client import seat
from support.swarm import ask, drive, hold_shot, pause, shot
from support.tables import seat_locked
from support.truth import seats_of
from support.waiting import wait_until

NODE_SETTINGS = {"request_timeout": "30s"}  # a slow machine is no fault
PASSENGERS = 24
CHANGES = 8
SEATS_EACH = 3  # of which a passenger has one, and wants another


@pytest.fixture(params=["one node", "two nodes"])
def nodes(request, node, start_node):
    return [node, node] if request.param == "one node" else [node, start_node(**NODE_SETTINGS)]


class Watch:
    """Looks at who has sold seats, in one snapshot after the other, until it is told to stop."""

    def __init__(self, database_url, org, event):
        self._url, self._scope = database_url, (org, event)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.expected = set()  # passengers who were told that they have a seat
        self.snapshots, self.wrong = 0, []

    def _look(self):
        connection = psycopg2.connect(self._url)
        connection.autocommit = True
        while not self._stop.is_set():
            expected = set(self.expected)
            sold = collections.Counter(user for user, in all_rows(connection, """
                SELECT user_id FROM seats WHERE org_id = %s AND event_id = %s AND status = 'sold'""", self._scope))
            self.wrong += [(user, sold[user]) for user in expected | sold.keys() if sold[user] != 1]
            self.snapshots += 1
            self._stop.wait(0.001)
        connection.close()

    def __enter__(self):
        self._thread.start()
        wait_until(lambda: self.snapshots, timeout=30, what="a first look")
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def assert_always_one(self):
        assert not self.wrong, f"(passenger, seats): {self.wrong[:20]} in {self.snapshots} snapshots"


@pytest.fixture
def watching(database_url, org):
    @contextlib.contextmanager
    def watch(event):
        with Watch(database_url, org, event) as watcher:
            yield watcher
        watcher.assert_always_one()

    return watch


def confirm_shot(user, hold):
    return shot(user, "POST", f"/api/holds/{hold['hold_id']}/confirm", {})


def sold_to(db, org, event):
    """{user: [seats]}"""
    sold = collections.defaultdict(list)
    for seat_id, (status, _, user) in seats_of(db, org, event).items():
        if status == "sold":
            sold[user].append(seat_id)
    return dict(sold)


def asked(user, node, make, *passing):
    """Asks until it is decided: who meets another's row lock, or a machine that has too much to do, is not refused."""
    while True:
        answer = yield make(user.at(node))
        if answer.status != 503 and answer.code not in ("seat_contended", *passing):
            return answer
        yield pause(0.05)


def held(user, node, event, seat_id, *passing, cart="cart-1"):
    """A hold that must come about, parsed; 200 where the answer to the first request for it was lost."""
    answer = yield from asked(user, node, lambda each: hold_shot(each, event, seat_id, cart=cart), *passing)
    assert answer.status in (200, 201), answer
    return answer.json


def confirmed(user, node, hold):
    answer = yield from asked(user, node, lambda each: confirm_shot(each, hold))
    return answer.expect(200).json


def is_decided(user, node, hold, answer):
    """What became of a confirm beside another one, which may have given its seat back already."""
    if answer.status == 503 or answer.code == "seat_contended":
        again = yield from asked(user, node, lambda each: confirm_shot(each, hold))
        assert again.status == 200 or (answer.status, again.code) == (503, "hold_not_active"), again
    else:
        answer.expect(200)


def test_passengers_who_change_seats_all_at_once_always_have_one(admin, nodes, db, org, watching, prove):
    """Each among seats of their own, so that everybody gets what they ask for."""
    event = admin.make_event(PASSENGERS * SEATS_EACH, kind="flight")

    def passenger(number, watch):
        user, has = admin.as_user(f"passenger-{number}"), None
        for turn in range(CHANGES):
            wanted = f"A-{number * SEATS_EACH + turn % SEATS_EACH + 1}"
            # Another node may know for a second or two only that it was the passenger's own.
            hold = yield from held(user, nodes[(number + turn) % 2], event, wanted, "seat_sold", cart=f"cart-{turn}")
            sale = yield from confirmed(user, nodes[turn % 2], hold)
            assert [ticket["seat_id"] for ticket in sale["tickets"]] == [wanted]
            watch.expected.add(user.user)
            has = wanted
        return user.user, [has]

    with watching(event) as watch:
        ended = dict(drive([passenger(number, watch) for number in range(PASSENGERS)], timeout=120))
    assert sold_to(db, org, event) == ended
    prove(event)


def test_passengers_who_want_each_others_seats_always_have_one(admin, nodes, db, org, watching, prove):
    """What one gives back another takes, in the same instant; nobody ends with two, or with none."""
    event, seats = admin.make_event(PASSENGERS + 6, kind="flight"), [f"A-{n}" for n in range(1, PASSENGERS + 7)]
    seen = collections.Counter()

    def passenger(number, watch):
        user, draw, has = admin.as_user(f"passenger-{number}"), random.Random(number), None
        for turn in range(4 * CHANGES):
            wanted = seats[number] if turn == 0 else draw.choice(seats)
            answer = yield from asked(user, nodes[draw.randrange(2)], lambda each: hold_shot(
                each, event, wanted, cart=f"cart-{turn}"))
            seen[answer.code] += 1
            if answer.status == 409:
                assert answer.code in ("seat_taken", "seat_sold"), answer
                continue
            assert answer.status in (200, 201), answer
            yield from confirmed(user, nodes[draw.randrange(2)], answer.json)
            watch.expected.add(user.user)
            has = wanted
        return user.user, [has]

    with watching(event) as watch:
        ended = drive([passenger(number, watch) for number in range(PASSENGERS)], timeout=120)
    assert sold_to(db, org, event) == {user: has for user, has in ended if has != [None]}
    assert seen[None] > PASSENGERS and seen["seat_sold"]
    prove(event)


def assert_one_each(db, org, event):
    assert {user: len(has) for user, has in sold_to(db, org, event).items()} == {
        f"passenger-{number}": 1 for number in range(PASSENGERS)}


def test_confirms_of_several_holds_of_one_user_at_once_leave_one_seat(admin, nodes, db, org, watching, prove):
    """Without one hold per user they may have several, and confirm them all in the same instant."""
    event = admin.make_event(PASSENGERS * SEATS_EACH, policy={"one_seat_per_user": True})

    def passenger(number, watch):
        user, holds = admin.as_user(f"passenger-{number}"), []
        for n in range(SEATS_EACH):
            hold = yield from held(user, nodes[n % 2], event, f"A-{number * SEATS_EACH + n + 1}", cart=f"cart-{n}")
            holds.append(hold)
        answers = yield [confirm_shot(user.at(nodes[n % 2]), hold) for n, hold in enumerate(holds)]
        for hold, answer in zip(holds, answers):
            yield from is_decided(user, nodes[0], hold, answer)
            watch.expected.add(user.user)

    with watching(event) as watch:
        drive([passenger(number, watch) for number in range(PASSENGERS)], timeout=120)
    assert_one_each(db, org, event)
    prove(event)


def test_payments_and_confirms_of_one_user_at_once_leave_one_seat(admin, nodes, db, org, watching, prove):
    seats = [seat(f"A-{n}", number=n, price=900) for n in range(1, 2 * PASSENGERS + 1)]
    event = admin.make_event(seats, policy={"one_seat_per_user": True})

    def passenger(number, watch):
        user, holds = admin.as_user(f"passenger-{number}"), []
        for n in range(2):
            hold = yield from held(user, nodes[n], event, f"A-{2 * number + n + 1}", cart=f"cart-{n}")
            holds.append(hold)
        checkout = yield from asked(user, nodes[0], lambda each: start_shot(each, event, [holds[0]["hold_id"]]))
        checkout = checkout.expect(201).json
        paid, sale = yield [complete_shot(user.at(nodes[0]), checkout), confirm_shot(user.at(nodes[1]), holds[1])]
        if paid.status != 200:
            paid = yield from asked(user, nodes[0], lambda each: complete_shot(each, checkout))
        paid.expect(200)
        yield from is_decided(user, nodes[1], holds[1], sale)
        watch.expected.add(user.user)

    with watching(event) as watch:
        drive([passenger(number, watch) for number in range(PASSENGERS)], timeout=120)
    assert_one_each(db, org, event)
    prove(event)


def test_rivals_for_a_seat_that_is_given_back_get_it_once(admin, nodes, db, org, watching, prove):
    event = admin.make_event(2 * PASSENGERS, kind="flight")

    def passenger(number, watch):
        user, mine, wanted = admin.as_user(f"passenger-{number}"), f"A-{2 * number + 1}", f"A-{2 * number + 2}"
        rivals = [admin.as_user(f"rival-{number}-{n}") for n in range(4)]
        hold = yield from held(user, nodes[0], event, mine)
        yield from confirmed(user, nodes[0], hold)
        watch.expected.add(user.user)
        hold = yield from held(user, nodes[1], event, wanted)
        sale, *answers = yield [confirm_shot(user.at(nodes[1]), hold)] + [
            hold_shot(rival.at(nodes[n % 2]), event, mine) for n, rival in enumerate(rivals)]
        yield from is_decided(user, nodes[1], hold, sale)
        won = [answer for answer in answers if answer.status == 201]
        assert len(won) <= 1
        if not any(answer.status in (201, 503) for answer in answers):
            # Memory elsewhere may say for a second or two that it is sold.
            yield from held(rivals[0], nodes[0], event, mine, "seat_sold")
        return user.user, [wanted]

    with watching(event) as watch:
        ended = drive([passenger(number, watch) for number in range(PASSENGERS)], timeout=120)
    assert sold_to(db, org, event) == dict(ended)
    prove(event)


# --- returned, beside all that -------------------------------------------------------------------------------------


def cancel_shot(user, event, seat_id):
    return shot(user, "POST", f"/flights/{event}/seats/{seat_id}/cancel", {})


def is_returned(user, node, event, seat_id, answer):
    """What became of a cancel: whether the seat was there to be returned."""
    if answer.status == 503 or answer.code == "seat_contended":
        answer = yield from asked(user, node, lambda each: cancel_shot(each, event, seat_id))
    assert answer.status == 200 or answer.code == "seat_not_found", answer
    return answer.status == 200


@pytest.mark.parametrize("which", ["the old seat", "the new seat"])
def test_a_cancel_beside_the_confirm_of_another_seat_is_before_it_or_behind_it(
        admin, nodes, db, org, prove, which):
    event = admin.make_event(2 * PASSENGERS, kind="flight")
    seen = collections.Counter()

    def passenger(number):
        user, old, new = admin.as_user(f"passenger-{number}"), f"A-{2 * number + 1}", f"A-{2 * number + 2}"
        hold = yield from held(user, nodes[0], event, old)
        yield from confirmed(user, nodes[0], hold)
        hold = yield from held(user, nodes[1], event, new)
        cancelled = old if which == "the old seat" else new
        shots = [confirm_shot(user.at(nodes[number % 2]), hold), cancel_shot(user.at(nodes[1]), event, cancelled)]
        answers = yield shots[::-1] if number % 3 else shots
        sale, back = answers[::-1] if number % 3 else answers
        if sale.status == 503 or sale.code == "seat_contended":
            sale = yield from asked(user, nodes[0], lambda each: confirm_shot(each, hold))
        returned = yield from is_returned(user, nodes[1], event, cancelled, back)
        seen[sale.status, returned] += 1
        return user.user, (old, new, sale.status, returned)

    ended = dict(drive([passenger(number) for number in range(PASSENGERS)], timeout=120))
    sold = sold_to(db, org, event)
    for user, (old, new, status, returned) in ended.items():
        has = sold.get(user, [])
        if which == "the old seat":  # it is returned, or given back, or both were to be done and one came first
            assert status == 200 and has == [new], (user, status, returned, has)
        elif status == 200 and not returned:
            assert has == [new], (user, has)
        elif status == 200:  # sold and returned again, by the passenger's own wish
            assert has == [], (user, has)
        else:
            assert returned and has == [old], (user, status, returned, has)
    assert {status for status, *_ in seats_of(db, org, event).values()} <= {"available", "sold"}
    print(seen)
    prove(event)


def test_of_many_cancels_of_one_seat_one_returns_it(admin, nodes, db, org, prove):
    event = admin.make_event(PASSENGERS, kind="flight")

    def passenger(number):
        user, seat_id = admin.as_user(f"passenger-{number}"), f"A-{number + 1}"
        hold = yield from held(user, nodes[0], event, seat_id)
        if number % 2:
            yield from confirmed(user, nodes[0], hold)
        answers = yield [cancel_shot(user.at(nodes[n % 2]), event, seat_id) for n in range(5)]
        codes = collections.Counter(answer.code for answer in answers)
        assert codes[None] <= 1, answers
        if not codes[None]:
            assert codes.keys() & {"seat_contended", "store_unavailable", "outcome_unknown", "overloaded"}, answers
            yield from asked(user, nodes[0], lambda each: cancel_shot(each, event, seat_id))

    drive([passenger(number) for number in range(PASSENGERS)], timeout=120)
    assert {status for status, *_ in seats_of(db, org, event).values()} == {"available"}
    prove(event)


def test_confirms_and_cancels_of_one_seat_at_once_leave_it_free(admin, nodes, db, org, prove):
    """Held or sold, it is there to be returned, and so it is."""
    event = admin.make_event(PASSENGERS, kind="flight")
    seen = collections.Counter()

    def passenger(number):
        user, seat_id = admin.as_user(f"passenger-{number}"), f"A-{number + 1}"
        hold = yield from held(user, nodes[0], event, seat_id)
        sale, back = yield [confirm_shot(user.at(nodes[0]), hold), cancel_shot(user.at(nodes[1]), event, seat_id)]
        seen[sale.status] += 1
        if back.status != 200:
            yield from asked(user, nodes[1], lambda each: cancel_shot(each, event, seat_id))

    drive([passenger(number) for number in range(PASSENGERS)], timeout=120)
    assert {status for status, *_ in seats_of(db, org, event).values()} == {"available"}
    print(seen)
    prove(event)


# --- one side held still -------------------------------------------------------------------------------------------


def is_held(client, event, seat_id, **more):
    return wait_until(lambda: (a := client.hold(event, seat_id, **more)).status in (200, 201) and a.json, timeout=30)


def is_confirmed(client, hold):
    return wait_until(lambda: (a := client.confirm(hold["hold_id"])).status == 200 and a.json, timeout=30)


def two_seats(client, event):
    """A-1 is confirmed, A-2 held; the hold of A-2."""
    is_confirmed(client, is_held(client, event, "A-1"))
    return is_held(client, event, "A-2")


@pytest.mark.parametrize("locked", ["A-1", "A-2"])
def test_while_another_transaction_has_one_of_the_seats_nothing_is_changed(
        client, admin, db, org, database_url, node, watching, prove, locked):
    event = admin.make_event(3, kind="flight")
    hold = two_seats(client, event)
    with watching(event) as watch:
        watch.expected.add(client.user)
        with seat_locked(database_url, org, event, locked):
            retries = node.metrics()["holdfast_retries_total"]
            wire = ask(confirm_shot(client, hold))
            wait_until(lambda: node.metrics()["holdfast_retries_total"] > retries + 2, timeout=10,
                       what="it tries again")
            assert wire.silent()
        wire.answer(timeout=40)
        is_confirmed(client, hold)
    assert sold_to(db, org, event) == {client.user: ["A-2"]}
    prove(event)


def test_two_confirms_of_a_user_that_meet_in_the_middle_leave_one_seat(
        client, admin, db, org, database_url, watching, prove):
    event = admin.make_event(4, policy={"one_seat_per_user": True})
    is_confirmed(client, is_held(client, event, "A-1", cart="c1"))
    holds = [is_held(client, event, f"A-{n}", cart=f"c{n}") for n in (2, 3)]
    with watching(event) as watch:
        watch.expected.add(client.user)
        with holding(database_url, HOLD_ALL_WRITES) as bystander:
            wires = [ask(confirm_shot(client, hold)) for hold in holds]
            await_waiting(db)
            bystander.release()
        answers = [wire.answer(timeout=40) for wire in wires]
    assert {answer.status for answer in answers} <= {200, 503}, answers
    assert [len(has) for has in sold_to(db, org, event).values()] == [1]
    prove(event)


def test_many_at_once_for_one_free_seat_one_gets_it_and_the_others_keep_theirs(admin, nodes, db, org, watching, prove):
    event = admin.make_event(PASSENGERS + 1, kind="flight")
    free = f"A-{PASSENGERS + 1}"
    users = [admin.as_user(f"passenger-{number}") for number in range(PASSENGERS)]

    def begin(number):
        hold = yield from held(users[number], nodes[0], event, f"A-{number + 1}")
        yield from confirmed(users[number], nodes[0], hold)

    def all_at_once():
        answers = yield [hold_shot(user.at(nodes[n % 2]), event, free) for n, user in enumerate(users)]
        won = [n for n, answer in enumerate(answers) if answer.status in (200, 201)]
        assert len(won) <= 1, answers
        return won

    drive([begin(number) for number in range(PASSENGERS)])
    with watching(event) as watch:
        watch.expected |= {user.user for user in users}
        [winner] = wait_until(lambda: drive([all_at_once()])[0], timeout=30, what="somebody gets it")
        drive([confirmed(users[winner], nodes[0], is_held(users[winner], event, free))])
    sold = sold_to(db, org, event)
    assert sold == {user.user: [free if n == winner else f"A-{n + 1}"] for n, user in enumerate(users)}
    prove(event)
