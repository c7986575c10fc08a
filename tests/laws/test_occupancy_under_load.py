"""Occupancy while everything changes on two nodes: each sample sums to the total, the end is a recount, and however
many ask, Postgres counts an event a few times a second."""

import random
import time

import pytest

from support import statements
from support.bystander import await_waiting, holding
from support.house import LONG, House
from support.swarm import Wire, drive, hold_shot, pause, shot
from support.tables import query
from support.waiting import wait_until

SECONDS = 60 if LONG else 4
SEATS, PLACES = 300, 200
TOTAL = SEATS + PLACES
FLOOR = [{"area_id": "floor", "name": "Floor", "capacity": PLACES}]
NAMES = ("available", "held", "sold", "blocked", "total")


@pytest.fixture(scope="module")
def house(workplace, log_folder):
    # A slow machine is no fault.
    with House(workplace, log_folder, postgres=statements.PRELOADED, request_timeout="30s") as house:
        yield house


@pytest.fixture
def db(house):
    with house.database() as connection:
        statements.prepare(connection)
        yield connection


def occupancy_shot(client, event):
    return shot(client, "GET", f"/api/events/{event}/occupancy")


def recount(db, org, event):
    seats, = query(db, """
        SELECT count(*) FILTER (WHERE status = 'available'), count(*) FILTER (WHERE status = 'held'),
            count(*) FILTER (WHERE status = 'sold'), count(*) FILTER (WHERE status = 'blocked'), count(*)
        FROM seats WHERE org_id = %s AND event_id = %s""", org, event)
    places, = query(db, """
        SELECT capacity - held - sold, held, sold, 0, capacity FROM areas WHERE org_id = %s AND event_id = %s""", org, event)
    return tuple(seat + place for seat, place in zip(seats, places))


def counts(client, event):
    told = client.occupancy(event).expect(200).json
    return tuple(told[name] for name in NAMES)


# --- everything at once ---------------------------------------------------------------------------------------------


def buyer(admin, node, event, seed, stop):
    """Holds seats and places, gives them back, buys them, or lets them end."""
    draw = random.Random(seed)
    user = admin.as_user(f"user-{seed}").at(node)
    while time.monotonic() < stop:
        seats = [f"A-{n}" for n in draw.sample(range(1, SEATS + 1), draw.choice([0, 1, 1, 2, 3]))]
        areas = [{"area_id": "floor", "quantity": draw.randint(1, 4)}] if not seats or draw.random() < 0.3 else None
        answer = yield hold_shot(user, event, *seats, cart=str(draw.random()), **({"areas": areas} if areas else {}))
        assert answer.status in (200, 201, 409), answer  # 200: seats that are one's own
        what = draw.random()
        if answer.status != 201 or what < 0.3:
            continue
        path = f"/api/holds/{answer.json['hold_id']}"
        answer = yield shot(user, "DELETE", path) if what < 0.9 else shot(user, "POST", f"{path}/confirm", {})
        assert answer.status in (200, 409), answer


def sampler(client, event, stop, samples):
    while time.monotonic() < stop:
        told = (yield occupancy_shot(client, event)).expect(200).json
        assert sum(told[name] for name in NAMES[:-1]) == told["total"] == TOTAL, told
        assert min(told[name] for name in NAMES) >= 0, told
        assert round(sum(told[f"percent_{name}"] for name in NAMES[:-1]), 1) == 100.0, told
        samples.append(told["sold"])


@pytest.mark.parametrize("maps", [0, 1, 2], ids=["no map in memory", "one node has the map", "both have it"])
def test_each_sample_sums_and_the_end_is_a_recount(house, db, maps):
    admin = house.admin()
    # Who asks for some of their own seats and others has one larger hold.
    event = admin.make_event(SEATS, policy={"hold_ttl": 2, "max_seats_per_hold": 500}, areas=FLOOR)
    seed, samples = random.randrange(2**32), []
    print(f"seed {seed}")
    for node in house.nodes[:maps]:
        admin.at(node).seats(event).expect(200)
    stop = time.monotonic() + SECONDS
    drive([buyer(admin, house.nodes[n % 2], event, seed + n, stop) for n in range(40)] +
          [sampler(admin.at(house.nodes[n % 2]), event, stop, samples) for n in range(8)], timeout=SECONDS + 60)
    assert len(samples) > 20
    wait_until(lambda: recount(db, admin.org, event)[1] == 0, timeout=15, what="what is left has ended")
    true = recount(db, admin.org, event)
    assert max(samples) <= true[2] > 0
    for node in house.nodes:
        wait_until(lambda at=admin.at(node): counts(at, event) == true, timeout=10, what="the counts are true")
    house.prove(admin.org, event)


# --- what it costs -------------------------------------------------------------------------------------------------


def test_a_crowd_shares_two_counts(house, db):
    """One that its first began, and one that began when all had come."""
    admin = house.admin()
    event = admin.make_event(20)
    data = occupancy_shot(admin, event).data
    wires = [Wire(admin.node) for _ in range(200)]
    with house.database() as watch, holding(house.postgres.url(), "LOCK TABLE seats IN ACCESS EXCLUSIVE MODE") as lock:
        statements.forget(db)
        for wire in wires:
            wire.send(data)
        await_waiting(watch)
        admin.node.metrics()  # the node's loop takes what comes in turn: by now it has taken all
        lock.release()
        answers = [wire.answer() for wire in wires]
        calls = statements.calls(db)["occupancy"]
    for wire in wires:
        wire.close()
    assert all(answer.expect(200).json["available"] == 20 for answer in answers)
    assert 1 <= calls <= 3, f"{calls} counts for {len(wires)} readers"


def changing(user, event, stop):
    while time.monotonic() < stop:
        hold = (yield hold_shot(user, event, cart=str(random.random()), areas=[
            {"area_id": "floor", "quantity": 1}])).expect(201).json["hold_id"]
        (yield shot(user, "DELETE", f"/api/holds/{hold}")).expect(200)


def reading(client, event, stop, told):
    while time.monotonic() < stop:
        told.append((yield occupancy_shot(client, event)).expect(200).json)
        yield pause(0.001)


@pytest.mark.parametrize("in_memory", [False, True], ids=["no map in memory", "with the map"])
def test_an_event_that_changes_all_the_time_is_counted_four_times_a_second_at_the_most(house, db, in_memory):
    admin = house.admin()
    event = admin.make_event(20, areas=FLOOR)
    if in_memory:
        admin.seats(event).expect(200)
    told, began = [], time.monotonic()
    statements.forget(db)
    stop = began + 3
    drive([changing(admin.as_user(f"user-{n}"), event, stop) for n in range(8)] +
          [reading(admin, event, stop, told) for _ in range(50)])
    calls, took = statements.calls(db).get("occupancy", 0), time.monotonic() - began
    assert len(told) >= 50 and 1 <= calls <= 4 * took + 2, f"{calls} counts, {len(told)} readers, {took} s"


def test_seats_that_change_all_the_time_are_not_counted_where_the_map_is_in_memory(house, db):
    """Unless the node had to doubt its map meanwhile, since the other one was not heard for most of a second."""
    for _ in range(10):
        doubted = trust_lost(house)
        calls = calls_of_changes(house.admin(), db)
        if trust_lost(house) == doubted:
            break
    assert "occupancy" not in calls, calls


def trust_lost(house):
    return sum(house.nodes[0].metrics()[name] for name in (
        'holdfast_trust_changes_total{to="not_trusted"}', "holdfast_distrusts_total"))


def calls_of_changes(admin, db):
    """What forty holds, each counted, cost."""
    event = admin.make_event(40)
    admin.seats(event).expect(200)
    wait_until(lambda: reads_of_maps(admin, event), timeout=10, what="the map is believed")
    statements.forget(db)
    for n in range(40):
        admin.held(event, f"A-{n + 1}", cart=str(n))
        assert counts(admin, event) == (39 - n, n + 1, 0, 0, 40)
    return statements.calls(db)


def reads_of_maps(client, event):
    name = 'holdfast_occupancy_reads_total{from="map"}'
    before = client.node.metrics()[name]
    client.occupancy(event).expect(200)
    return client.node.metrics()[name] > before
