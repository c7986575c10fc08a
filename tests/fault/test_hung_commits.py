"""A COMMIT has landed and its answer doesn't come: nobody goes on refusing on the word of memory.

The connection stays open, so whoever sent the COMMIT knows nothing and waits for as long as its request may last. From
the moment the change can be seen in Postgres a stale refusal may last for two seconds, on each node.
"""

import time

import pytest

from support.bystander import one_value
from support.client import Client
from support.swarm import ask, shot
from support.waiting import wait_until

STALE_S = 2.0
LEASE_S = 1.1  # hot_lease, and a bit


@pytest.fixture
def proxy_and_nodes(proxied, start_node, database_url):
    """The way of the first one to Postgres leads through the proxy."""
    proxy, url = proxied(database_url)
    nodes = [start_node(database_url=url, request_timeout="20s"), start_node()]
    wait_until(lambda: all(node.metrics()["holdfast_trusted"] == 1 for node in nodes), timeout=20)
    yield proxy, nodes
    proxy.disarm()


@pytest.fixture(params=["unblock", "remove", "cancel"])
def freeing(request, proxy_and_nodes, org):
    """(the event, the request that makes its A-1 end being refused so, how it was refused)"""
    _, nodes = proxy_and_nodes
    boss, owner = Client(nodes[0], org, "boss", "admin"), Client(nodes[0], org, "owner")
    event = boss.make_event(2)
    if request.param == "cancel":
        hold_id = owner.held(event, "A-1")["hold_id"]
        return event, shot(owner, "DELETE", f"/api/holds/{hold_id}"), "seat_taken"
    seats = {"event_id": event, "seat_ids": ["A-1"], "reason": "rain"}
    boss.post("/api/admin/seats/block", seats).expect(200)
    if request.param == "remove":
        return event, shot(boss, "DELETE", f"/api/events/{event}/seats/A-1"), "seat_blocked"
    return event, shot(boss, "POST", "/api/admin/seats/unblock", seats), "seat_blocked"


def version_of(db, org, event):
    return one_value(db, "SELECT version FROM seats WHERE org_id = %s AND event_id = %s AND seat_id = 'A-1'",
                     (org, event))


def hold(buyer, event):
    """A buyer at a node that knows the event well, so that its seats alone are what memory may have wrong: (when he
    asked, the answer)."""
    assert buyer.as_user("bystander").hold_one(event, "A-2").status in (200, 201)
    return time.monotonic(), buyer.hold_one(event, "A-1")


def refusal_from_memory(buyer, event):
    _, answer = hold(buyer, event)
    return answer.code if answer.headers["X-Holdfast-Tier"] == "hot" else None


def refusal_from_memory_alone(buyer, event):
    """Of a while later: it isn't a read of a moment ago that refuses."""
    time.sleep(LEASE_S)
    return refusal_from_memory(buyer, event)


@pytest.mark.parametrize("at", [0, 1], ids=["the node itself", "its peer"])
def test_no_refusal_outlives_two_seconds_when_the_answer_to_a_commit_hangs(
        proxy_and_nodes, freeing, at, org, db, check_audit, check_verify):
    proxy, nodes = proxy_and_nodes
    event, a_shot, refused = freeing
    buyer = Client(nodes[at], org, "buyer")
    before = version_of(db, org, event)
    wait_until(lambda: refusal_from_memory_alone(buyer, event) == refused, timeout=30, what="memory knows")
    proxy.at(b"COMMIT", "keep the answer")
    wire = ask(a_shot)
    assert proxy.ambushed.wait(10), "no COMMIT came by"
    wait_until(lambda: version_of(db, org, event) != before, what="it has committed")
    committed = time.monotonic()
    asked, answer = hold(buyer, event)
    while answer.code == refused:
        late = asked - committed
        assert late < STALE_S, f"refused when asked {late:.1f} s after it was free, {answer.headers['X-Holdfast-Tier']}"
        time.sleep(0.01)
        asked, answer = hold(buyer, event)
    assert answer.status == 201 or answer.code == "seat_not_found", answer
    assert wire.silent(), "its answer was to be held back"
    proxy.deliver()
    wire.answer(timeout=20).expect(200)
    wait_until(lambda: all(node.metrics()["holdfast_trusted"] == 1 for node in nodes), timeout=20)
    check_audit(event)
    check_verify(nodes[1])
