"""A crowd checks in at two nodes, waits, changes its mind; one node is killed in the middle."""

import os
import random
import threading

import pytest

from support.cabin import cabin
from support.check_in_crowd import crowd
from support.house import House
from support.swarm import drive
from support.tables import query
from support.waiting import wait_until
from support.waitlists import assert_first_come_first_served, assert_nobody_twice, await_assigned

SEED = int(os.environ.get("HOLDFAST_SEED", random.SystemRandom().randrange(1 << 32)))


@pytest.fixture(scope="module")
def broken_house(workplace, log_folder):
    with House(workplace, log_folder, reaper_interval_ms=300) as house:
        yield house


def test_three_hundred_check_in_while_a_node_is_killed(broken_house):
    print(f"seed {SEED}")
    house = broken_house.whole()
    admin = house.admin()
    seats = cabin(30)
    event = admin.make_event(seats, kind="flight")
    people = crowd(admin, house.nodes, event, seats, 300, changing=1 / 3, seed=SEED)

    def kill():
        with house.database() as db:  # in the middle: half of them have a seat
            wait_until(lambda: query(db, "SELECT count(*) FROM seats WHERE event_id = %s AND status = 'sold'",
                                     event)[0][0] >= 90, 60, every=0.005)
        house.nodes[1].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    drive([passenger.check_in() for passenger in people], timeout=120)
    killer.join()

    waiting = {passenger.user for passenger in people if passenger.waits}
    gave_back = sum(passenger.gave_back for passenger in people)
    assert len(waiting) >= 100 and 0 < gave_back <= 120
    served = len(waiting) + gave_back - 120
    with house.database() as db:
        rows = await_assigned(db, admin.org, event, served)
        assert len(rows) == served and {row.user_id for row in rows} <= waiting
        assert_first_come_first_served(db, admin.org, event)
        assert_nobody_twice(db, admin.org, event)
    house.prove(admin.org, event)
