"""Clocks jump, of a node or of Postgres: only the database's grants and ends, and nodes follow it."""

import statistics
import time

import pytest

from support import servers, tokens
from support.bystander import HOLD_ALL_WRITES, await_waiting, holding
from support.client import Client
from support.house import House
from support.swarm import ask, shot
from support.truth import seats_of
from support.waiting import wait_until
from support.wrong_clock import WrongClock

JUMPS_S = [600, -600, 0]


@pytest.fixture
def clock(workplace, request):
    return WrongClock(workplace.path, f"wrong-clock-{abs(hash(request.node.name)) % 10**8}")


@pytest.fixture
def jumpy(start_node, clock, monkeypatch):
    """A node whose wall clock the test may set."""
    for name, value in clock.environment().items():
        monkeypatch.setenv(name, value)
    node = start_node(reaper_interval_ms=200)
    monkeypatch.undo()
    return node


def await_free(db, org, event):
    wait_until(lambda: {row[0] for row in seats_of(db, org, event).values()} == {"available"}, timeout=10)


def late_by(db, hold):
    """(how long after its end it was ended, by the database's clock), in seconds."""
    with db.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM ended_at - held_until) FROM seat_holds WHERE hold_id = %s",
                       (hold["hold_id"],))
        return float(cursor.fetchone()[0])


def test_a_node_whose_clock_jumps_grants_and_ends_nothing_by_it(jumpy, clock, other, admin, db, org, prove):
    long_event = admin.make_event(4, policy={"hold_ttl": 300, "extend_by": 10, "max_hold": 1200})
    brief_event = admin.make_event(4, policy={"hold_ttl": 4})
    user, told, late_s = Client(jumpy, org, "user-1"), [], []
    for turn, offset_s in enumerate(JUMPS_S):
        kept = user.held(long_event, f"A-{turn + 1}", cart=f"kept-{turn}")
        brief = user.held(brief_event, f"A-{turn + 1}", cart=f"brief-{turn}")
        clock.set(offset_s)
        assert 295 < user.get_hold(kept["hold_id"]).expect(200).json["expires_in_seconds"] <= 300
        assert user.get_hold(brief["hold_id"]).expect(200).json["status"] == "active"
        other.at(jumpy).hold_one(brief_event, f"A-{turn + 1}").expect(409, "seat_taken")
        after = user.held(long_event, "A-4", cart=f"after-{turn}")
        assert 295 < after["expires_in_seconds"] <= 300
        user.extend(kept["hold_id"]).expect(200)
        user.cancel(after["hold_id"]).expect(200)
        await_free(db, org, brief_event)
        late_s.append(late_by(db, brief))
        assert user.get_hold(kept["hold_id"]).expect(200).json["status"] == "active"
        good = tokens.mint(jumpy.secret, org, "user-1", ttl=300)
        over = tokens.mint(jumpy.secret, org, "user-1", ttl=-300)
        assert Client(jumpy, org, "user-1", token=good).get(f"/api/events/{long_event}").status == 200
        Client(jumpy, org, "user-1", token=over).get(f"/api/events/{long_event}").expect(401, "token_expired")
        told.append(brief)
    assert min(late_s) >= 0 and statistics.median(late_s) < 1, late_s
    prove(brief_event, told)
    prove(long_event)


@pytest.fixture
def suspended(start_node, clock, monkeypatch):
    """A node whose own clock may go forward by itself."""
    for name, value in clock.environment(of_boot=True).items():
        monkeypatch.setenv(name, value)
    node = start_node(reaper_interval_ms=200, request_timeout="30s")
    monkeypatch.undo()
    return node


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("what", ["hold", "extend", "checkout"])
def test_a_grant_that_is_over_by_the_nodes_clock_alone_is_told(
        suspended, clock, admin, db, org, database_url, prove, what, keyed):
    """It asks the database before it says that the hold is over: law 4; and law 7, for the hold stands."""
    event = admin.make_event(3, policy={"hold_ttl": 3, "extend_by": 1, "max_hold": 600})
    user = Client(suspended, org, "user-1")
    kept = user.held(event, "A-1")
    path, body, status = {
        "hold": ("/api/holds", {"event_id": event, "seat_ids": ["A-2"], "cart_token": "late"}, 201),
        "extend": (f"/api/holds/{kept['hold_id']}/extend", {}, 200),
        "checkout": ("/api/checkouts", {"event_id": event}, 201)}[what]
    with holding(database_url, HOLD_ALL_WRITES) as bystander:
        wire = ask(shot(user, "POST", path, body, headers={"Idempotency-Key": "once"} if keyed else None))
        await_waiting(db)
        clock.set(4)  # less than what makes it look at the database's clock at once
        bystander.release()
    wire.answer().expect(status)
    held = [row[0] for row in seats_of(db, org, event).values()].count("held")
    assert held == (2 if what == "hold" else 1)
    prove(event)


@pytest.fixture
def house_of_another_time(workplace, log_folder, clock):
    """Its Postgres, and nobody else, has the clock."""
    house = House(workplace, log_folder, nodes=1, reaper_interval_ms=200)
    house.postgres = PostgresWithClock(house.postgres.folder, {"shared_buffers": "64MB"}, clock)
    with house:
        yield house


class PostgresWithClock(servers.Postgres):
    def __init__(self, folder, settings, clock):
        super().__init__(folder, settings)
        self._clock = clock

    def command(self):
        return ["env", *(f"{name}={value}" for name, value in self._clock.environment().items()), *super().command()]


def test_nodes_follow_a_database_whose_clock_jumps(house_of_another_time, clock):
    """Ahead: what is over by its clock is over. Back: what it holds stands longer, and nothing else happens."""
    house, admin = house_of_another_time, house_of_another_time.admin()
    token = tokens.mint(house.nodes[0].secret, admin.org, "user-1", ttl=7200)
    user, other = Client(house.nodes[0], admin.org, "user-1", token=token), admin.as_user("user-2")
    event = admin.make_event(4, policy={"hold_ttl": 60, "max_hold": 600})
    with house.database() as db:
        hold = user.held(event, "A-1")
        clock.set(30)
        wait_until(lambda: user.get_hold(hold["hold_id"]).json["expires_in_seconds"] <= 30, what="the node follows")
        other.hold_one(event, "A-1").expect(409, "seat_taken")
        clock.set(61)
        began = time.monotonic()
        wait_until(lambda: other.hold_one(event, "A-1").status == 201, timeout=10, what="what is over is over")
        assert time.monotonic() - began < 5
        user.confirm(hold["hold_id"]).expect(409, "hold_expired")
        kept = user.held(event, "A-2")
        clock.set(0)
        wait_until(lambda: user.get_hold(kept["hold_id"]).json["expires_in_seconds"] > 100, what="the node follows")
        other.hold_one(event, "A-2").expect(409, "seat_taken")
        user.confirm(kept["hold_id"]).expect(200)
        assert seats_of(db, admin.org, event)["A-2"][0] == "sold"
