"""The disk of Postgres is full: no hold is granted, none that was granted is lost, and with room it goes on."""

import pytest

from support import small_disk
from support.house import House
from support.load import STORE_AWAY, SteadyLoad
from support.waiting import wait_until

WHY_NOT = small_disk.why_not()
CONNECTIONS, SEATS_EACH, DISK_MB, FULL_S = 40, 5, 160, 2
PACE_S = 0.4  # less than can be done beside other tests


@pytest.fixture
def house(workplace, log_folder):
    house = House(workplace, log_folder, nodes=1)
    settings = {"shared_buffers": "32MB", "max_wal_size": "48MB", "min_wal_size": "32MB"}
    house.postgres = small_disk.PostgresOnSmallDisk(house.postgres.folder, settings, DISK_MB)
    with house:
        yield house


def is_back(postgres):
    """It may have ended in a moment ago, since it couldn't even recover; a node needs no restart."""
    if postgres.process.poll() is not None:
        postgres.start()
    return postgres.answers()


@pytest.mark.skipif(WHY_NOT is not None, reason=f"no small disk on this machine: {WHY_NOT}")
def test_a_full_disk_is_a_store_that_is_away(house):
    admin = house.admin()
    event = admin.make_event(CONNECTIONS * SEATS_EACH, policy={"hold_ttl": 600, "max_hold": 3600})
    with SteadyLoad(house.nodes, admin.org, event, CONNECTIONS, SEATS_EACH, STORE_AWAY, PACE_S) as load:
        before = load.measure(2)
        house.postgres.fill()
        wait_until(lambda: load.excused["store_unavailable"] > 0, timeout=30, what="it is noticed")
        load.measure(FULL_S)
        house.postgres.make_room()
        wait_until(lambda: is_back(house.postgres), timeout=60, what="Postgres answers")
        load.await_rate(0.5 * before, within=15)
    with house.database() as db:
        load.assert_as_told(db)
    house.prove(admin.org, event)
