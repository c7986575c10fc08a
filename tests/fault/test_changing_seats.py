"""A confirmed passenger changes seats, and something breaks between the steps: they have one seat, and never two."""

import collections
import itertools

import pytest

from support.client import Client
from support.house import LONG
from support.lost_commits import fire_into
from support.swarm import ask, drive, hold_shot, shot
from support.truth import seats_of
from support.waiting import wait_until

FATES = {"lose the answer": 100 if LONG else 25, "lose the request": 7, "keep the request": 7}  # how often each
PASSENGERS, SEATS_EACH = 20, 3


@pytest.fixture
def behind(start_node, proxied, database_url, org):
    """(a user at a node with one worker behind a proxy, the proxy)"""
    proxy, url = proxied(database_url)
    return Client(start_node(database_url=url, workers=1), org, "user-behind"), proxy


def sold_to(db, org, event):
    """{user: [seats]}"""
    sold = collections.defaultdict(list)
    for seat_id, (status, _, user) in seats_of(db, org, event).items():
        if status == "sold":
            sold[user].append(seat_id)
    return dict(sold)


def is_held(user, event, seat_id):
    return wait_until(lambda: (a := user.hold(event, seat_id)).status in (200, 201) and a.json, timeout=30)


def is_confirmed(user, hold):
    wait_until(lambda: user.confirm(hold["hold_id"]).status == 200, timeout=30)


def confirm_shot(user, hold):
    return shot(user, "POST", f"/api/holds/{hold['hold_id']}/confirm", {})


# A confirm comes in a batch first, whose commit changes nothing: there it is told to come alone.
@pytest.mark.parametrize("passing", [0, 1], ids=["of the batch", "of the sale"])
@pytest.mark.parametrize("how", FATES)
def test_a_change_whose_commit_is_lost_has_happened_or_not(behind, admin, db, org, how, passing, prove):
    """As a whole: the new seat for the old one, or the old one still. Asked again it is done."""
    user, proxy = behind
    event, has = admin.make_event(3, kind="flight"), "A-1"
    is_confirmed(user, is_held(user, event, has))
    for turn in range(FATES[how]):
        wanted = f"A-{(turn + 1) % 3 + 1}"
        hold = is_held(user, event, wanted)
        answer = fire_into(proxy, how, confirm_shot(user, hold), passing)
        [seats] = sold_to(db, org, event).values()
        if answer.status == 200:
            assert seats == [wanted]
        else:
            assert answer.status == 503 and seats in ([has], [wanted]), (answer, seats)
        is_confirmed(user, hold)
        assert sold_to(db, org, event) == {user.user: [wanted]}
        has = wanted
    prove(event)


@pytest.mark.parametrize("how", FATES)
def test_a_return_whose_commit_is_lost_has_happened_or_not(behind, admin, db, org, how, prove):
    user, proxy = behind
    event = admin.make_event(1, kind="flight")
    for turn in range(FATES[how]):
        hold = is_held(user, event, "A-1")
        if turn % 2:
            is_confirmed(user, hold)
        cancel = shot(user, "POST", f"/flights/{event}/seats/A-1/cancel", {})
        answer = fire_into(proxy, how, cancel)
        status = seats_of(db, org, event)["A-1"][0]
        if answer.status == 200:
            assert status == "available"
        else:
            assert answer.status == 503 and status in ("available", "sold" if turn % 2 else "held"), (answer, status)
        wait_until(lambda: ask(cancel).answer(timeout=20).status in (200, 404), timeout=30)
        assert seats_of(db, org, event)["A-1"][0] == "available"
    prove(event)


def test_passengers_whose_nodes_are_killed_between_the_steps_have_one_seat(node, start_node, admin, db, org, prove):
    second = start_node()
    event = admin.make_event(PASSENGERS * SEATS_EACH, kind="flight", policy={"hold_ttl": 300})
    nodes, told, changes = [node, second], {}, collections.Counter()
    running = [True]

    def killer():
        for turn in itertools.count():
            if turn >= 3 and changes["lost"]:  # and it was in the middle of one that it was killed
                break
            enough = changes["confirmed"] + 4 * PASSENGERS
            while changes["confirmed"] < enough:
                yield shot(admin, "GET", "/health")
            second.kill()
            # As a container comes back; under its old name it waits until its row is old.
            second.node_id = f"{second.log_path.stem}-{turn}"
            second.start()
        running[0] = False

    def looker():
        """Whoever was told of a seat has one, whatever has become of the node that is at it."""
        while running[0]:
            expected, sold = set(told), sold_to(db, org, event)
            assert all(len(sold.get(user, ())) == 1 for user in expected), (expected, sold)
            changes["looks"] += 1
            yield shot(admin, "GET", "/health")

    def passenger(number):
        user, turn = Client(node, org, f"passenger-{number}"), 0
        while running[0]:
            turn += 1
            wanted = f"A-{number * SEATS_EACH + turn % SEATS_EACH + 1}"
            answer = yield hold_shot(user.at(nodes[turn % 2]), event, wanted, cart=f"cart-{turn}")
            if answer is None or answer.status != 201:
                assert answer is None or answer.status == 503 or answer.code in ("seat_sold", "seat_contended"), answer
                continue
            answer = yield confirm_shot(user.at(nodes[(turn + number) % 2]), answer.json)
            if answer is None or answer.status == 503:
                changes["lost"] += 1
                continue
            if answer.code != "seat_contended":
                told[user.user] = answer.expect(200).json["seats"][0]["seat_id"]
                changes["confirmed"] += 1

    drive([killer(), looker()] + [passenger(number) for number in range(PASSENGERS)], timeout=180)
    assert changes["looks"] > 0
    sold = sold_to(db, org, event)
    assert {user: len(seats) for user, seats in sold.items()} == {f"passenger-{n}": 1 for n in range(PASSENGERS)}
    prove(event)
