"""Areas: one counter sold to a crowd on two nodes, together with seats, and while its capacity changes.

What is proved: exactly the capacity is sold, and nobody is refused while there was room; a hold of seats and areas has
all of it or nothing; a capacity is never less than what is taken, what is raised is sold, and no reader ever sees less
than nothing left. HOLDFAST_LONG=1 takes 10,000 places and 20,000 buyers.
"""

import collections
import itertools
import random

import psycopg2
import pytest

from support.client import Client
from support.house import LONG
from support.swarm import drive, hold_shot, pause, shot, tally
from support.tables import area_row, query, seat_statuses
from support.waiting import wait_until

NODE_SETTINGS = {"request_timeout": "30s"}  # a slow machine is no fault
PLACES, CONNECTIONS = (10_000, 500) if LONG else (1_000, 100)
RAISED = 4_000 if LONG else 400  # what another capacity ends with
TIMEOUT_S = 300 if LONG else 90


@pytest.fixture
def nodes(node, start_node):
    return [node, start_node(**NODE_SETTINGS)]


def floor(capacity, area="floor"):
    return {"area_id": area, "name": area.title(), "capacity": capacity}


def wanted(quantity, area="floor"):
    return {"area_id": area, "quantity": quantity}


def set_capacity(admin, event, capacity):
    """The shot of the administrator who does it."""
    return shot(admin, "PUT", f"/api/events/{event}",
                {"name": event, "kind": "event", "status": "on_sale", "areas": [floor(capacity)]})


def taken(db, org, event, area="floor"):
    """(capacity, held, sold), having been compared with the lines that make it up."""
    [row] = query(db, "SELECT capacity, held, sold FROM areas WHERE (org_id, event_id, area_id) = (%s, %s, %s)",
                  org, event, area)
    [lines] = query(db, "SELECT coalesce(sum(quantity) FILTER (WHERE status = 'active'), 0), "
                    "coalesce(sum(quantity) FILTER (WHERE status = 'converted'), 0) FROM seat_holds "
                    "WHERE (org_id, event_id, area_id) = (%s, %s, %s)", org, event, area)
    assert tuple(row[1:]) == tuple(lines), "the counter is not the sum of its lines"
    assert row[1] + row[2] <= row[0]
    return tuple(row)


def assert_shown(nodes, admin, event, capacity, sold, held=0):
    for each in nodes:
        reader = admin.at(each)
        wanted_area = floor(capacity) | {"available": capacity - held - sold, "held": held, "sold": sold}
        wait_until(lambda: reader.seats(event).expect(200).json["areas"] == [wanted_area], what="the map shows it")


# --- a crowd -------------------------------------------------------------------------------------------------------


def test_exactly_the_capacity_is_sold(nodes, admin, org, db, prove):
    """Twice as many buyers as places; each holds one and buys it."""
    event = admin.make_event(0, areas=[floor(PLACES)])
    numbers = itertools.count()

    def buyers(place):
        answers = []
        for number in itertools.takewhile(lambda n: n < 2 * PLACES, numbers):
            user = Client(nodes[(number + place) % 2], org, f"buyer-{number}")
            held = yield hold_shot(user, event, areas=[wanted(1)])
            answers.append(held)
            if held.status == 201:
                sold = yield shot(user, "POST", f"/api/holds/{held.json['hold_id']}/confirm", {})
                assert len(sold.expect(200).json["tickets"]) == 1
        return answers

    answers = [each for some in drive([buyers(n) for n in range(CONNECTIONS)], TIMEOUT_S) for each in some]
    assert tally(answers) == {(201, None): PLACES, (409, "area_full"): PLACES}
    assert taken(db, org, event) == (PLACES, 0, PLACES)
    assert_shown(nodes, admin, event, PLACES, sold=PLACES)
    prove(event)


def test_what_is_left_behind_large_wishes_is_sold_to_small_ones(nodes, admin, org, db, prove):
    """Everybody wants some, and is told "full" only if that many were not left."""
    event = admin.make_event(0, areas=[floor(997)], policy={"max_seats_per_hold": 50})
    draw = random.Random(6)

    def buyer(number):
        user, got = Client(nodes[number % 2], org, f"buyer-{number}"), 0
        for turn in range(4):
            quantity = draw.choice([1, 2, 7, 13])
            answer = yield hold_shot(user, event, cart=f"cart-{turn}", areas=[wanted(quantity)])
            if answer.status == 201:
                got += quantity
                if draw.random() < 0.3:
                    yield shot(user, "DELETE", f"/api/holds/{answer.json['hold_id']}")
                    got -= quantity
            else:
                answer.expect(409, "area_full")
        return got

    held = sum(drive([buyer(number) for number in range(120)], TIMEOUT_S))
    assert taken(db, org, event) == (997, held, 0)

    def small(number):
        user = Client(nodes[number % 2], org, f"small-{number}")
        answer = yield hold_shot(user, event, areas=[wanted(1)])
        return answer

    left = 997 - held
    answers = drive([small(number) for number in range(left + 30)], TIMEOUT_S)
    assert tally(answers) == collections.Counter({(201, None): left, (409, "area_full"): 30}) - collections.Counter()
    assert taken(db, org, event) == (997, 997, 0)
    prove(event)


# --- seats and areas together --------------------------------------------------------------------------------------


def test_a_hold_of_seats_and_areas_has_all_or_nothing(nodes, admin, org, db, prove):
    """Everybody wants two of few seats and places of two areas that are full long before the seats are gone."""
    event = admin.make_event(40, areas=[floor(14, "left"), floor(8, "right")], policy={"max_seats_per_hold": 20})
    draw = random.Random(7)
    told, refused = {}, collections.Counter()

    def buyer(number):
        for turn in range(6):
            user = Client(nodes[number % 2], org, f"buyer-{number}-{turn}")
            seats = draw.sample([f"A-{n}" for n in range(1, 41)], 2)
            areas = [wanted(draw.randint(1, 3), "left"), wanted(draw.randint(1, 3), "right")][:draw.randint(1, 2)]
            draw.shuffle(areas)
            answer = yield hold_shot(user, event, *seats, areas=areas)
            if answer.status != 201:
                refused[answer.status, answer.code] += 1
                continue
            hold = answer.json
            assert {entry["seat_id"] for entry in hold["seats"]} == set(seats)
            assert sorted(hold["areas"], key=str) == sorted(areas, key=str)
            if draw.random() < 0.5:
                gone = yield shot(user, "DELETE", f"/api/holds/{hold['hold_id']}")
                gone.expect(200)
            else:
                told[hold["hold_id"]] = (set(seats), {area["area_id"]: area["quantity"] for area in areas})

    drive([buyer(number) for number in range(60)], TIMEOUT_S)
    assert set(refused) <= {(409, "seat_taken"), (409, "area_full"), (409, "seat_contended")}, refused
    assert refused[409, "seat_taken"] and refused[409, "area_full"], refused
    stands = collections.defaultdict(lambda: (set(), {}))
    for hold, seat, area, quantity in query(db, "SELECT hold_id, seat_id, area_id, quantity FROM seat_holds WHERE "
                                            "(org_id, event_id, status) = (%s, %s, 'active')", org, event):
        if seat is not None:
            stands[str(hold)][0].add(seat)
        else:
            stands[str(hold)][1][area] = quantity
    assert dict(stands) == told
    for area in ("left", "right"):
        assert taken(db, org, event, area)[1] == sum(areas.get(area, 0) for _, areas in told.values())
    held = {seat for seat, status in seat_statuses(db, org, event).items() if status == "held"}
    assert held == set().union(*(seats for seats, _ in told.values()))
    prove(event)


def test_a_full_area_leaves_the_seats_free_and_a_taken_seat_the_area(client, other, admin, org, db):
    event = admin.make_event(4, areas=[floor(3)])
    other.hold(event, "A-1", areas=[wanted(2)]).expect(201)
    client.hold(event, "A-2", areas=[wanted(2)]).expect(409, "area_full")
    client.hold(event, "A-1", areas=[wanted(1)]).expect(409, "seat_taken")
    assert seat_statuses(db, org, event)["A-2"] == "available" and taken(db, org, event) == (3, 2, 0)
    client.hold(event, "A-2", areas=[wanted(1)]).expect(201)
    assert taken(db, org, event) == (3, 3, 0)


# --- another capacity during the sale ------------------------------------------------------------------------------


def test_a_capacity_is_never_less_than_what_is_taken(client, admin, org, db):
    event = admin.make_event(0, areas=[floor(10)])
    client.confirm(client.hold(event, areas=[wanted(3)]).expect(201).json["hold_id"]).expect(200)
    client.hold(event, cart="c2", areas=[wanted(4)]).expect(201)
    body = {"name": event, "kind": "event", "status": "on_sale", "areas": [floor(6)]}
    problem = admin.put(f"/api/events/{event}", body).expect(409, "capacity_in_use").json
    assert problem["errors"][0]["field"] == "areas[0].capacity"
    assert taken(db, org, event) == (10, 4, 3)
    admin.set_event(event, areas=[floor(7)])
    client.hold(event, cart="c3", areas=[wanted(1)]).expect(409, "area_full")
    admin.set_event(event, areas=[floor(9)])
    client.hold(event, cart="c3", areas=[wanted(3)]).expect(409, "area_full")
    client.hold(event, cart="c3", areas=[wanted(2)]).expect(201)
    assert taken(db, org, event) == (9, 6, 3)
    [area] = client.seats(event).json["areas"]
    assert (area["capacity"], area["available"], area["held"], area["sold"]) == (9, 0, 6, 3)


def test_places_that_are_added_during_the_sale_are_sold(nodes, admin, org, db, prove):
    """An administrator raises and lowers the capacity while people hold, give back and buy, and others look on."""
    last = RAISED
    event = admin.make_event(0, areas=[floor(last // 5)])
    over, changes, looks = [], collections.Counter(), []

    def administrator():
        draw = random.Random(8)
        for step in range(1, 5):
            for tries in itertools.count():  # until one was refused, however long until something is taken
                if tries >= 6 and (step < 4 or changes[409, "capacity_in_use"]):
                    break
                answer = yield set_capacity(admin, event, draw.randrange(last * step // 5))
                changes[answer.status, answer.code] += 1
                yield pause(0.02)
            answer = yield set_capacity(admin, event, last * (step + 1) // 5)
            changes[answer.expect(200).status, None] += 1
            yield pause(0.2)

    def buyer(number):
        draw = random.Random(number)
        user, turn = Client(nodes[number % 2], org, f"buyer-{number}"), 0
        while not over:
            turn += 1
            answer = yield hold_shot(user, event, cart=f"cart-{turn}", areas=[wanted(draw.randint(1, 3))])
            if answer.status != 201:
                answer.expect(409, "area_full")
                yield pause(0.05)
                continue
            path = f"/api/holds/{answer.json['hold_id']}"
            what = draw.random()
            if what < 0.4:
                sold = yield shot(user, "POST", f"{path}/confirm", {})
                sold.expect(200)
            elif what < 0.7:
                gone = yield shot(user, "DELETE", path)
                gone.expect(200)

    def onlooker(each):
        user, version = Client(each, org, "onlooker"), ""
        while not over:
            answer = yield shot(user, "GET", f"/api/events/{event}/seats?since={version}")
            [area] = answer.expect(200).json["areas"]
            version = answer.json["version"]
            looks.append(area)
            counts = yield shot(user, "GET", f"/api/events/{event}/occupancy")
            told = counts.expect(200).json
            assert min(told[name] for name in ("available", "held", "sold")) >= 0, told
            assert told["available"] + told["held"] + told["sold"] == told["total"], told
            yield pause(0.005)

    def closing():
        """Ends it when the last change is made, all is taken, and somebody has looked on."""
        yield from administrator()
        while True:
            [row] = query(db, "SELECT capacity - held - sold FROM areas WHERE (org_id, event_id) = (%s, %s)", org, event)
            if row[0] == 0 and len(looks) > 20:
                over.append(True)
                return
            answer = yield hold_shot(Client(nodes[0], org, "last"), event, cart=f"c-{random.random()}", areas=[wanted(1)])
            assert answer.status == 201 or answer.code == "area_full"

    drive([closing(), *(onlooker(each) for each in nodes), *(buyer(number) for number in range(40))], TIMEOUT_S)
    assert set(changes) <= {(200, None), (409, "capacity_in_use")} and changes[409, "capacity_in_use"], changes
    assert len(looks) > 20
    for area in looks:
        assert min(area["available"], area["held"], area["sold"]) >= 0, area
        assert area["available"] + area["held"] + area["sold"] == area["capacity"], area
    capacity, held, sold = taken(db, org, event)
    assert capacity == last
    assert_shown(nodes, admin, event, capacity, sold, held)
    prove(event)


def test_the_table_itself_refuses_less_than_nothing_and_more_than_all(admin, org, db):
    event = admin.make_event(0, areas=[floor(5)])
    for change in ("held = 6", "held = 3, sold = 3", "held = -1", "sold = -1", "capacity = -1"):
        with pytest.raises(psycopg2.errors.CheckViolation):
            query(db, f"UPDATE areas SET {change} WHERE (org_id, event_id) = (%s, %s) RETURNING 1", org, event)
    assert area_row(db, org, event, "floor") is not None
