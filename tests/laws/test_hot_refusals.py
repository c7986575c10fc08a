"""Refusals from memory: they cost Postgres nothing, and they end when the seat is free, also by another node's hand."""

import statistics
import time

import pytest

from support.client import Client
from support.contract import time_of
from support.swarm import ask, drive, hold_shot, shot, tally, volley
from support.waiting import wait_until

NODE_SETTINGS = {"hot_lease": "10s"}  # so that a slow machine doesn't end a lease within a test


def tier(answer):
    return answer.headers["X-Holdfast-Tier"]


def refused_from_memory(user, event, seat="A-1"):
    answer = user.hold_one(event, seat).expect(409)
    return tier(answer) == "hot"


def test_a_refusal_from_memory_asks_neither_postgres_nor_redis(client, admin, node, event, prove):
    client.held(event, "A-1")
    wait_until(lambda: refused_from_memory(admin.as_user(), event), what="memory knows")
    before = node.metrics()
    answers = volley([hold_shot(admin.as_user(), event, "A-1") for _ in range(500)])
    after = node.metrics()
    assert tally(answers) == {(409, "seat_taken"): 500}
    assert {tier(answer) for answer in answers} == {"hot"}
    for name in ("holdfast_batches_total", "holdfast_holds_refused_total{tier=\"postgres\"}"):
        assert after[name] == before[name], name
    hot = "holdfast_holds_refused_total{tier=\"hot\"}"
    assert after[hot] - before[hot] == 500
    prove(event)


def test_memory_refuses_while_postgres_is_frozen(start_node, proxied, database_url, org, admin):
    """The proof that no query is needed: none could be answered."""
    proxy, url = proxied(database_url)
    node = start_node(database_url=url, hot_lease="10s", request_timeout="2s")
    event = admin.make_event(3)
    holder = Client(node, org, "holder")
    holder.held(event, "A-1")
    wait_until(lambda: refused_from_memory(holder.as_user(), event), what="memory knows")
    proxy.freeze()
    try:
        answers = volley([hold_shot(holder.as_user(), event, "A-1") for _ in range(50)])
    finally:
        proxy.thaw()
    assert tally(answers) == {(409, "seat_taken"): 50}
    assert {tier(answer) for answer in answers} == {"hot"}


def test_memory_knows_a_sold_and_a_blocked_seat_too(client, admin, event, prove):
    hold = client.held(event, "A-1")
    client.confirm(hold["hold_id"]).expect(200)
    admin.post("/api/admin/seats/block", {"event_id": event, "seat_ids": ["A-2"], "reason": "broken"}).expect(200)
    for seat, code in (("A-1", "seat_sold"), ("A-2", "seat_blocked")):
        wait_until(lambda seat=seat: refused_from_memory(admin.as_user(), event, seat), what=f"memory knows {seat}")
        admin.as_user().hold_one(event, seat).expect(409, code)
    admin.post("/api/admin/seats/unblock", {"event_id": event, "seat_ids": ["A-2"], "reason": "mended"}).expect(200)
    client.hold_one(event, "A-2").expect(201)
    prove(event)


def test_the_owner_is_never_refused_by_memory(client, other, event):
    hold = client.held(event, "A-1")
    wait_until(lambda: refused_from_memory(other, event), what="memory knows")
    assert client.hold_one(event, "A-1").expect(200).json["hold_id"] == hold["hold_id"]
    client.post(f"/api/holds/{hold['hold_id']}/transfer", {"to_user_id": other.user}).expect(200)
    assert other.hold_one(event, "A-1").expect(200).json["hold_id"] == hold["hold_id"]
    client.hold_one(event, "A-1", cart="another").expect(409, "seat_taken")


def test_a_refusal_of_several_seats_names_each_also_from_memory(client, other, admin, event):
    client.held(event, "A-1", "A-3")
    admin.as_user().held(event, "A-2")
    other.held(event, "A-4")
    answer = wait_until(lambda: (a := admin.as_user().hold(event, "A-2", "A-1", "A-3")).status == 409 and a)
    assert [seat["seat_id"] for seat in answer.json["seats"]] == ["A-2", "A-1", "A-3"]


@pytest.mark.parametrize("freed_by", ["here", "by another node"])
def test_a_freed_seat_can_be_held_at_once_or_soon(client, admin, start_node, event, freed_by, prove):
    """Here at once. What another node frees: within a second or two, however often one asks meanwhile (the median: a
    machine may stand still once)."""
    there = start_node(hot_lease="1s") if freed_by == "by another node" else client.node
    # This node was started with a long lease; the one that is asked has the usual one.
    asked = start_node() if freed_by == "by another node" else client.node
    owner, took = client.at(there), []
    for turn in range(5):
        hold = owner.held(event, "A-1", cart=f"cart-{turn}")
        buyer = admin.as_user().at(asked)
        buyer.hold_one(event, "A-1").expect(409, "seat_taken")
        owner.cancel(hold["hold_id"]).expect(200)
        freed = time.monotonic()
        if freed_by == "here":
            answer = buyer.hold_one(event, "A-1").expect(201)
        else:
            answer = wait_until(lambda: (a := buyer.hold_one(event, "A-1")).status == 201 and a, timeout=15, every=0.01)
        took.append(time.monotonic() - freed)
        buyer.cancel(answer.json["hold_id"]).expect(200)
        wait_until(lambda: owner.seat_status(event, "A-1") == "available")
    assert statistics.median(took) < (2.5 if freed_by == "by another node" else 0.5), took
    prove(event)


def test_a_sale_at_one_node_is_a_refusal_at_the_other(client, other, start_node, event):
    second = start_node()
    hold = client.held(event, "A-1")
    other.at(second).hold_one(event, "A-1").expect(409, "seat_taken")
    client.confirm(hold["hold_id"]).expect(200)
    wait_until(lambda: other.at(second).hold_one(event, "A-1").code == "seat_sold", timeout=15)


def test_a_crowd_at_another_node_reads_postgres_once_a_second_not_once_each(client, admin, start_node, event):
    """Nodes that don't hear of each other refuse on a lease: at most one read per seat, node and second or so."""
    second = start_node()
    client.held(event, "A-1")
    wait_until(lambda: refused_from_memory(admin.as_user().at(second), event), what="memory knows")
    before, began = second.metrics(), time.monotonic()
    for _ in range(4):
        answers = volley([hold_shot(admin.as_user().at(second), event, "A-1") for _ in range(250)])
        assert tally(answers) == {(409, "seat_taken"): 250}
    seconds = time.monotonic() - began
    batches = second.metrics()["holdfast_batches_total"] - before["holdfast_batches_total"]
    assert batches <= 3 * (seconds + 2), f"{batches} batches in {seconds:.1f} s for 1,000 refusals"


def test_an_extension_lengthens_what_memory_knows(client, other, admin, prove):
    event = admin.make_event(1, policy={"hold_ttl": 2, "extend_by": 60, "max_hold": 100})
    hold = client.held(event, "A-1")
    client.extend(hold["hold_id"]).expect(200)
    until = time.monotonic() + 2.5
    while time.monotonic() < until:  # past the first end
        other.hold_one(event, "A-1").expect(409, "seat_taken")
    assert client.get_hold(hold["hold_id"]).expect(200).json["status"] == "active"
    prove(event, [hold])


def test_memory_stops_refusing_at_the_end_of_the_hold(client, admin, prove):
    """A crowd that asks all the time gets the seat when its time is over, without anybody reading it anew before; and
    when that of the next holder is over, who is told the same."""
    event = admin.make_event(1, policy={"hold_ttl": 1})
    hold = client.held(event, "A-1")
    began = time.monotonic()

    def insist(_):
        user = admin.as_user()
        while time.monotonic() < began + 5:
            answer = yield shot(user, "POST", f"/api/events/{event}/seats/A-1/hold", {"cart_token": "c"})
            if answer.status == 201:
                return answer.json
            assert answer.code in ("seat_taken", "seat_contended"), answer
        return None

    holds = [hold, *sorted(filter(None, drive([insist(n) for n in range(10)])), key=lambda told: told["created_at"])]
    late = [(time_of(after["created_at"]) - time_of(before["expires_at"])).total_seconds()
            for before, after in zip(holds, holds[1:])]
    assert min(late) >= 0 and statistics.median(late) < 1, late
    prove(event, holds)


def test_a_closed_event_is_closed_also_where_memory_knows_better(client, other, admin, start_node, event):
    """A close counts, on every node, for all that begins after its answer."""
    second = start_node()
    client.held(event, "A-1")
    other.at(second).held(event, "A-2")
    admin.set_event(event, status="closed")
    client.hold_one(event, "A-3").expect(409, "event_closed")
    other.at(second).hold_one(event, "A-3").expect(409, "event_closed")
    assert ask(hold_shot(other, event, "A-5")).answer().code == "event_closed"
