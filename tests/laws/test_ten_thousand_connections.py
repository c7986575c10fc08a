"""10,000 clients keep their connections open and idle while others buy."""

import select
import time

from support.swarm import Wire, allow_descriptors, drive, hold_shot

NODE_SETTINGS = {"idle_timeout": "10m", "request_timeout": "30s"}  # a slow machine is no fault
CONNECTIONS = 10_000
SOURCES = [f"127.0.0.{n}" for n in range(2, 10)]  # each has ports for 28,000
HEALTH = b"GET /health HTTP/1.1\r\nHost: holdfast\r\n\r\n"


def open_idle(node, count):
    """Connections that have had an answer: they are the server's by now, and idle."""
    wires = []
    while len(wires) < count:
        portion = [Wire(node, SOURCES[(len(wires) + n) % len(SOURCES)]) for n in range(min(500, count - len(wires)))]
        for wire in portion:
            wire.send(HEALTH)
        for wire in portion:
            assert wire.answer().status == 200
        wires += portion
    return wires


def test_ten_thousand_idle_connections_disturb_nobody(node, admin, prove):
    allow_descriptors()
    event = admin.make_event(1000)
    wires = open_idle(node, CONNECTIONS)
    try:
        assert node.metrics()["holdfast_connections"] >= CONNECTIONS

        def buy(number):
            user, told = admin.as_user(), []
            for n in range(number, 1000, 20):
                answer = yield hold_shot(user, event, f"A-{n + 1}", cart=f"cart-{n}")
                told.append(answer.expect(201).json)
            return told

        began = time.monotonic()
        told = [hold for holds in drive([buy(number) for number in range(20)]) for hold in holds]
        assert time.monotonic() - began < 20
        readable = select.poll()
        for wire in wires:
            readable.register(wire, select.POLLIN)
        assert not readable.poll(0), "some of them were ended or told something"
        for wire in wires[::97]:
            wire.send(HEALTH)
        for wire in wires[::97]:
            assert wire.answer().status == 200
    finally:
        for wire in wires:
            wire.close()
    prove(event, told)
