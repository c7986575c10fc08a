"""Law 4: "now" is the database's clock, read after the locks; no node's own clock grants or ends a hold."""

import statistics
import time

import pytest

from support import tokens
from support.bystander import HOLD_ALL_WRITES, all_rows, await_waiting, holding, one_value
from support.client import Client
from support.swarm import ask, shot
from support.truth import seats_of
from support.waiting import wait_until
from support.wrong_clock import WrongClock

LOCK_SEAT = "SELECT FROM seats WHERE org_id = %s AND event_id = %s AND seat_id = %s FOR UPDATE"


def await_end(db, org, event, seat="A-1"):
    """Waits until the hold on the seat is over by the database's clock."""
    wait_until(lambda: one_value(db, """
        SELECT held_until IS NULL OR held_until <= clock_timestamp() FROM seats
        WHERE org_id = %s AND event_id = %s AND seat_id = %s""", (org, event, seat)), timeout=10, what="its end")


@pytest.fixture
def brief_event(admin):
    return admin.make_event(3, policy={"hold_ttl": 1, "extend_by": 60})


# --- judged after the wait --------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["confirm", "extend", "transfer"])
@pytest.mark.parametrize("where", ["this node", "another node"])
def test_what_waited_on_a_seat_past_its_end_is_refused(
        client, brief_event, start_node, db, org, database_url, what, where, prove):
    """The wait ends without a change of the row, so that only a clock that is read after it tells the truth."""
    event = brief_event
    user = client if where == "this node" else client.at(start_node(reaper_interval_ms=600_000))
    hold = client.held(event, "A-1", "A-2")
    with holding(database_url, LOCK_SEAT, (org, event, "A-2")) as bystander:
        wire = ask(shot(user, "POST", f"/api/holds/{hold['hold_id']}/{what}", {"to_user_id": "heir"}))
        await_end(db, org, event, "A-2")
        bystander.release()
    answer = wire.answer()
    assert answer.status == 409 and answer.code in ("hold_expired", "seat_contended"), answer
    wait_until(lambda: {row[0] for row in seats_of(db, org, event).values()} == {"available"}, timeout=10)
    prove(event)


def stands_behind_a_lock_past_the_end(client, event, seat, db, database_url):
    """A confirm that does, and is refused. False: the machine was slow, and it began after the end."""
    hold = client.held(event, seat, cart=seat)
    wait_until(lambda: one_value(db, """
        SELECT held_until - clock_timestamp() < interval '0.5 s' FROM seats
        WHERE org_id = %s AND event_id = %s AND seat_id = %s""", (client.org, event, seat)), what="its end is near")
    with holding(database_url, HOLD_ALL_WRITES) as bystander:
        wire = ask(shot(client, "POST", f"/api/holds/{hold['hold_id']}/confirm", {}))
        await_waiting(db)
        in_time = one_value(db, "SELECT held_until > clock_timestamp() FROM seats WHERE event_id = %s AND seat_id = %s",
                            (event, seat))
        await_end(db, client.org, event, seat)
        bystander.release()
    wire.answer().expect(409, "hold_expired")
    return in_time


def test_a_confirm_that_stood_behind_a_lock_past_the_end_is_refused(client, admin, db, database_url, prove):
    tries = 20
    event = admin.make_event(tries, policy={"hold_ttl": 1})
    assert any(stands_behind_a_lock_past_the_end(client, event, f"A-{n}", db, database_url)
               for n in range(1, tries + 1)), "the machine was too slow for this test: each began after the end"
    prove(event)


def test_all_seats_of_a_hold_have_one_end(client, admin, db, org):
    event = admin.make_event(8)
    client.held(event, *(f"A-{n}" for n in range(1, 9)))
    ends = all_rows(db, "SELECT count(DISTINCT held_until), count(*) FROM seats WHERE org_id = %s AND event_id = %s",
                    (org, event))
    assert ends == [(1, 8)]


def test_a_hold_ends_at_its_time_without_anybody_asking(client, admin, db, org, prove):
    """Within half a second: half of those whose ends lie apart, since a machine may stand still once."""
    event = admin.make_event(10, policy={"hold_ttl": 2})
    holds = []
    for n in range(1, 10, 2):
        holds.append(client.held(event, f"A-{n}", f"A-{n + 1}", cart=f"cart-{n}"))
        time.sleep(0.4)
    wait_until(lambda: {row[0] for row in seats_of(db, org, event).values()} == {"available"}, timeout=20)
    rows = all_rows(db, """
        SELECT status::text, reason, extract(epoch FROM ended_at - held_until)::float8 FROM seat_holds
        WHERE org_id = %s AND event_id = %s""", (org, event))
    assert [row[:2] for row in rows] == [("expired", "ttl_expired")] * 10
    late = [row[2] for row in rows]
    assert min(late) >= 0 and statistics.median(late) < 0.5, late
    prove(event, holds)


def test_a_hold_ends_at_its_time_after_a_restart(start_node, admin, db, org, prove):
    """The wheel that knew it died with its node."""
    second = start_node(reaper_interval_ms=600_000)
    event = admin.make_event(2, policy={"hold_ttl": 3})
    user = Client(second, org, "user-9")
    hold = user.held(event, "A-1")
    second.kill()
    second.start()
    wait_until(lambda: seats_of(db, org, event)["A-1"][0] == "available", timeout=20, every=0.01)
    late = one_value(db, "SELECT extract(epoch FROM ended_at - held_until) FROM seat_holds WHERE hold_id = %s",
                     (hold["hold_id"],))
    assert 0 <= late < 3.5, f"it was {late} s late"  # the other node's reaper or the new wheel
    prove(event, [hold])


# --- a node whose clock is wrong ------------------------------------------------------------------------------------

@pytest.fixture(params=[3600, -3600], ids=["an hour ahead", "an hour behind"])
def wrong_node(request, start_node, workplace, monkeypatch):
    """A node whose wall clock is an hour off."""
    clock = WrongClock(workplace.path, f"clock{request.param}", request.param)
    for name, value in clock.environment().items():
        monkeypatch.setenv(name, value)
    node = start_node(reaper_interval_ms=200)
    monkeypatch.undo()
    return node


def test_a_node_with_a_wrong_clock_judges_like_the_others(wrong_node, client, other, admin, db, org, prove):
    event = admin.make_event(4, policy={"hold_ttl": 4, "extend_by": 1, "max_hold": 100})
    wrong = client.at(wrong_node)
    hold = wrong.held(event, "A-1")
    assert 0 < hold["expires_in_seconds"] <= 4
    born, now = one_value(db, "SELECT extract(epoch FROM created_at) FROM seat_holds WHERE hold_id = %s",
                          (hold["hold_id"],)), one_value(db, "SELECT extract(epoch FROM clock_timestamp())")
    assert 0 <= now - born < 10
    theirs = other.held(event, "A-2")
    assert wrong.get_hold(hold["hold_id"]).expect(200).json["status"] == "active"
    wrong.hold_one(event, "A-2").expect(409, "seat_taken")
    wrong.extend(hold["hold_id"]).expect(200)
    assert other.get_hold(theirs["hold_id"]).expect(200).json["status"] == "active"
    wait_until(lambda: {row[0] for row in seats_of(db, org, event).values()} == {"available"}, timeout=20)
    sold = wrong.held(event, "A-3")
    wrong.confirm(sold["hold_id"]).expect(200)
    prove(event)


def test_a_node_with_a_wrong_clock_dates_tokens_right(wrong_node, org, event):
    """Nodes keep an offset for token times too."""
    good = tokens.mint(wrong_node.secret, org, "user-1", ttl=600)
    over = tokens.mint(wrong_node.secret, org, "user-1", ttl=-600)
    assert Client(wrong_node, org, "user-1", token=good).get(f"/api/events/{event}").status == 200
    Client(wrong_node, org, "user-1", token=over).get(f"/api/events/{event}").expect(401, "token_expired")
