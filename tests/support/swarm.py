"""Very many requests at once, from one thread: what threads with http.client are too slow for.

An actor is a generator. It yields shots, bytes that are ready to be sent, and gets their answers:

    def buyer(user, event):
        answer = yield shot(user, "POST", f"/api/events/{event}/seats/A-1/hold", {"cart_token": "c"})
        one, two = yield [shot(...), shot(...)]     # sent in the same instant, each on a connection of its own
        yield pause(0.1)                            # nothing of this actor for so many seconds
        return one.status

    results = drive([buyer(user, event) for user in users])

An answer is None where the connection ended without one (a node that was killed), or where it took longer than
`patience`.
"""

import collections
import functools
import heapq
import itertools
import json as json_module
import re
import resource
import select
import socket
import time

from support.client import Answer
from support.waiting import something_has_come

CHUNK_BYTES = 262144
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

CONNECTION_CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)

Shot = collections.namedtuple("Shot", "node data")
pause = collections.namedtuple("pause", "seconds")


def shot(client, method, path, json=None, headers=None):
    """A request of this client to its node, as bytes."""
    body = b"" if json is None else json_module.dumps(json, separators=(",", ":")).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: holdfast", f"Authorization: Bearer {client.token}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if json is not None:
        lines.append("Content-Type: application/json")
    if json is not None or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    return Shot(client.node, "\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def hold_shot(client, event, *seats, cart="cart-1", headers=None, **more):
    body = {"event_id": event, "cart_token": cart} | more
    if seats:
        body["seat_ids"] = list(seats)
    return shot(client, "POST", "/api/holds", body, headers)


class Headers(dict):
    """Names without case."""

    def get(self, name, default=None):
        return super().get(name.lower(), default)

    def __getitem__(self, name):
        return super().__getitem__(name.lower())


class SwarmAnswer(Answer):
    """An answer that reads its headers only when asked for them."""

    def __init__(self, head, body):
        super().__init__(int(head[9:12]), None, body)
        self._head = head

    @property
    def headers(self):
        return self._parsed

    @headers.setter
    def headers(self, _):
        pass  # the base class's constructor; they are read from the head

    @functools.cached_property
    def _parsed(self):
        lines = self._head.decode("latin-1").split("\r\n")[1:]
        return Headers((name.strip().lower(), value.strip()) for name, _, value in
                       (line.partition(":") for line in lines))


class Wire:
    """One keep-alive connection: send(), and later take() or answer()."""

    def __init__(self, node, source=None):
        self.socket = socket.create_connection((node.host, node.port), 30, source and (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self.last = False  # the node has said that this was its last answer here

    def fileno(self):
        return self.socket.fileno()

    def send(self, data):
        self.socket.sendall(data)

    def take(self):
        """Reads what is there; the answer, or None while it is not whole. ConnectionError: it never will be."""
        chunk = self.socket.recv(CHUNK_BYTES)
        if not chunk:
            raise ConnectionResetError("closed without an answer")
        self._received += chunk
        head, blank, rest = self._received.partition(b"\r\n\r\n")
        if not blank:
            return None
        length = CONTENT_LENGTH.search(head)
        size = int(length.group(1)) if length else 0
        if len(rest) < size:
            return None
        self._received = rest[size:]
        self.last = CONNECTION_CLOSE.search(head) is not None
        return SwarmAnswer(head, rest[:size])

    def silent(self):
        """Whether nothing has come."""
        return not something_has_come(self.socket) and not self._received

    def answer(self, timeout=30):
        self.socket.settimeout(timeout)
        while True:
            answer = self.take()
            if answer is not None:
                return answer

    def close(self):
        self.socket.close()


def ask(a_shot):
    """Sends a shot on a new connection and returns the wire without waiting for the answer."""
    wire = Wire(a_shot.node)
    wire.send(a_shot.data)
    return wire


class Actor:
    """A generator with its connections, and the answers that it still waits for."""

    def __init__(self, steps):
        self.steps = steps
        self.wires = {}  # (node, place in the volley) -> Wire
        self.waiting = {}  # Wire -> place in the answers
        self.answers = []
        self.single = False  # one shot was yielded, not a list
        self.turn = 0  # counts what it has yielded
        self.result = None


class Swarm:
    """Drives actors until each has returned."""

    def __init__(self, actors, timeout, patience=None):
        self.actors = [Actor(steps) for steps in actors]
        self.patience = patience
        self.alarms = []  # heap of (when to wait no longer, a number that is unique, Actor, its turn then)
        self.numbers = itertools.count()
        self.deadline = time.monotonic() + timeout
        self.timeout = timeout
        self.epoll = select.epoll()
        self.by_descriptor = {}  # descriptor -> (Wire, Actor)
        self.lost = 0  # requests that were sent, and whose connection ended without an answer
        self.left = len(self.actors)

    def run(self):
        with self.epoll:
            try:
                for actor in self.actors:
                    self._advance(actor, None)
                self._loop()
            finally:
                for wire, _ in self.by_descriptor.values():
                    wire.close()
        return [actor.result for actor in self.actors]

    def _loop(self):
        while self.left:
            left_s = self.deadline - time.monotonic()
            assert left_s > 0, f"{self.left} of {len(self.actors)} are not through after {self.timeout} s"
            for descriptor, _ in self.epoll.poll(min(left_s, self._until_next_alarm()), 4096):
                if descriptor in self.by_descriptor:
                    self._readable(*self.by_descriptor[descriptor])
            while self.alarms and self.alarms[0][0] <= time.monotonic():
                _, _, actor, turn = heapq.heappop(self.alarms)
                if actor.turn == turn:
                    self._wait_no_longer(actor)

    def _until_next_alarm(self):
        return max(0.0, min(1.0, self.alarms[0][0] - time.monotonic())) if self.alarms else 1.0

    def _set_alarm(self, actor, seconds):
        heapq.heappush(self.alarms, (time.monotonic() + seconds, next(self.numbers), actor, actor.turn))

    def _wait_no_longer(self, actor):
        """Its pause is over, or the patience of `drive`."""
        for wire in list(actor.waiting):
            self._drop(wire, actor)
        actor.waiting = {}
        self._advance(actor, actor.answers[0] if actor.single else actor.answers)

    def _readable(self, wire, actor):
        try:
            answer = wire.take()
            if answer is None:
                return
            if wire.last:
                self._drop(wire, actor)
        except BlockingIOError:
            return  # its descriptor was another connection's a moment ago
        except OSError:
            answer = None
            self._drop(wire, actor)
        if wire not in actor.waiting:
            return  # an idle connection has ended
        self.lost += answer is None
        actor.answers[actor.waiting.pop(wire)] = answer
        if not actor.waiting:
            self._advance(actor, actor.answers[0] if actor.single else actor.answers)

    def _drop(self, wire, actor):
        for key, other in list(actor.wires.items()):
            if other is wire:
                del actor.wires[key]
        del self.by_descriptor[wire.fileno()]
        wire.close()

    def _advance(self, actor, value):
        """Gives the generator its answers and sends what it wants next; again while nothing could be sent."""
        while True:
            actor.turn += 1
            try:
                wanted = actor.steps.send(value)
            except StopIteration as end:
                self._end(actor, end.value)
                return
            actor.single = isinstance(wanted, (Shot, pause))
            if isinstance(wanted, pause):
                actor.answers = [None]
                self._set_alarm(actor, wanted.seconds)
                return
            shots = [wanted] if actor.single else list(wanted)
            self._fire(actor, shots)
            if actor.waiting:
                if self.patience is not None:
                    self._set_alarm(actor, self.patience)
                return
            value = None if actor.single else [None] * len(shots)

    def _fire(self, actor, shots):
        """Connects first, then sends all at once."""
        actor.answers = [None] * len(shots)
        actor.waiting = {}
        wires = [self._wire(actor, a_shot.node, place) for place, a_shot in enumerate(shots)]
        for place, (wire, a_shot) in enumerate(zip(wires, shots)):
            if wire is None:
                continue
            try:
                wire.send(a_shot.data)
                actor.waiting[wire] = place
            except OSError:
                self._drop(wire, actor)

    def _wire(self, actor, node, place):
        key = (node, node.port, place)
        wire = actor.wires.get(key)
        if wire is None:
            try:
                wire = Wire(node)
            except OSError:
                return None
            wire.socket.setblocking(False)
            actor.wires[key] = wire
            self.by_descriptor[wire.fileno()] = (wire, actor)
            self.epoll.register(wire.fileno(), select.EPOLLIN)
        return wire

    def _end(self, actor, result):
        actor.result = result
        self.left -= 1
        for wire in actor.wires.values():
            self.by_descriptor.pop(wire.fileno(), None)
            wire.close()
        actor.wires = {}


def drive(actors, timeout=60, patience=None):
    """Runs the actors to their ends; what each returned, in order."""
    allow_descriptors()
    return Swarm(actors, timeout, patience).run()


def volley(shots, timeout=60):
    """Sends all shots in the same instant, each on a connection of its own; their answers in order."""
    def all_of_them():
        answers = yield shots
        return answers

    return drive([all_of_them()], timeout)[0]


def tally(answers):
    """How many of each (status, problem code)."""
    return collections.Counter((answer.status, answer.code) if answer is not None else None for answer in answers)


def allow_descriptors():
    """Raises the soft limit of open files to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
