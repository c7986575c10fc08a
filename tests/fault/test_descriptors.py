"""A node that has no descriptors left, or as many connections as it may have: it neither spins nor floods its log,
goes on with those whom it has, and takes the others as soon as it can."""

import collections
import json
import os
import resource
import time

import pytest

from support.client import Client
from support.swarm import Wire, allow_descriptors
from support.waiting import wait_until

HEALTH = b"GET /health HTTP/1.1\r\nHost: holdfast\r\n\r\n"
CROWD = 200
LOOKED_AT_S = 2


def descriptors(node):
    return len(os.listdir(f"/proc/{node.process.pid}/fd"))


def cpu_seconds(node):
    """What the process has used so far."""
    with open(f"/proc/{node.process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def let_have(node, count):
    _, hard = resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (count, hard))


def knock(node):
    """So many connections, each with a request on it; some may have to wait in the kernel's queue."""
    wires = [Wire(node) for _ in range(CROWD)]
    for wire in wires:
        wire.send(HEALTH)
    return wires


def answered(wires, least=0):
    """Those that have their answer, once nothing more comes; so many at least, unless that takes very long."""
    done, began = set(), time.monotonic()
    quiet_since = began
    while time.monotonic() < quiet_since + 0.5 or (len(done) < least and time.monotonic() < began + 20):
        for wire in wires:
            if wire not in done and not wire.silent():
                assert wire.answer().status == 200
                done.add(wire)
                quiet_since = time.monotonic()
        time.sleep(0.02)
    return done


def assert_at_rest(node):
    """It does next to nothing, and says nothing again and again; each connection may say that it is lost."""
    lines, used, began = len(node.log_text().splitlines()), cpu_seconds(node), time.monotonic()
    time.sleep(LOOKED_AT_S)
    share = (cpu_seconds(node) - used) / (time.monotonic() - began)
    assert share < 0.25, f"it uses {share:.0%} of a processor"
    more = node.log_text().splitlines()[lines:]
    said = collections.Counter((line.get("event"), line.get("connection")) for line in map(json.loads, more))
    assert max(said.values(), default=0) <= 2, "\n".join(more[:20])


def assert_all_get_in(wires, done):
    """When those who have been answered leave, the others are answered; at the most in turns."""
    waiting = set(wires) - done
    while waiting:
        for wire in done:
            wire.close()
        done = wait_until(lambda: answered(waiting), timeout=10, what="the next ones are taken")
        waiting -= done
    for wire in done:
        wire.close()


@pytest.mark.parametrize("short_of", ["descriptors", "connections"])
def test_a_node_that_can_take_no_more_waits_and_goes_on(start_node, admin, org, short_of, prove):
    allow_descriptors()
    node = start_node(**({"connections_max": 40} if short_of == "connections" else {}))
    event, user = admin.make_event(20), Client(node, org, "user-1")
    told = [user.held(event, "A-1")]
    room = descriptors(node)
    if short_of == "descriptors":
        let_have(node, room + 40)
    wires = knock(node)
    try:
        done = answered(wires, 20)
        assert 20 <= len(done) <= 45, f"{len(done)} of {CROWD} were taken"
        assert_at_rest(node)
        # Whoever is in is served; so are those whose connection needs nothing new.
        told += [user.held(event, f"A-{n}", cart=f"cart-{n}") for n in range(2, 11)]
        some = sorted(done, key=id)[:5]
        for wire in some:
            wire.send(HEALTH)
        assert {wire.answer().status for wire in some} == {200}
        assert_all_get_in(wires, done)
    finally:
        for wire in wires:
            wire.close()
    told += [Client(node, org, f"late-{n}").held(event, f"A-{n}") for n in range(11, 21)]
    assert node.metrics()["holdfast_connections"] <= 45
    prove(event, told)


def test_a_store_that_is_lost_while_there_are_no_descriptors_comes_back(
        start_node, proxied, database_url, admin, org, prove):
    """Its sessions end and no new one can be opened: 503, no spinning, no flood; and then all is well again."""
    proxy, url = proxied(database_url)
    node = start_node(database_url=url, request_timeout="1s")
    event, user = admin.make_event(4), Client(node, org, "user-1")
    told = [user.held(event, "A-1")]
    let_have(node, 3)
    try:
        proxy.cut()
        answer = user.hold_one(event, "A-2")
        assert answer.status == 503 and answer.code in ("store_unavailable", "outcome_unknown"), answer
        assert_at_rest(node)
    finally:
        let_have(node, 20_000)
    told.append(wait_until(lambda: (a := user.hold_one(event, "A-3", cart="c")).status == 201 and a, timeout=15).json)
    prove(event, told, complete=False)
