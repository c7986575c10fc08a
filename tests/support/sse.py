"""Readers of Server-Sent Events.

    with EventStream(client, event) as stream:             # or EventStream(client, event, last_event_id=..., ticket=...)
        stream.expect(200)
        first = stream.next()                              # Event(name, id, data), within PATIENCE_S
        seats = stream.seats(3)                            # the next three events of seats
    follow(streams, lambda: ..., timeout)                  # many at once, by one thread

No thread of its own: what has come is read when it is asked for.
"""

import dataclasses
import json
import selectors
import socket
import time
import urllib.parse

from support.client import Answer
from support.waiting import PATIENCE_S


@dataclasses.dataclass
class Event:
    name: str
    id: str | None  # None: this event had none
    data: dict


class EventStream:
    """One answer without an end. Keeps each event in `events`, and the id that a browser would resume from."""

    def __init__(self, client, event, last_event_id=None, ticket=None, node=None, receive_buffer=None, **query):
        node = node or client.node
        query = query | ({"ticket": ticket} if ticket else {})
        path = f"/api/events/{event}/stream" + ("?" + urllib.parse.urlencode(query) if query else "")
        lines = [f"GET {path} HTTP/1.1", "Host: x", "Accept: text/event-stream"]
        if not ticket:
            lines.append(f"Authorization: Bearer {client.token}")
        if last_event_id is not None:
            lines.append(f"Last-Event-ID: {last_event_id}")
        self.events, self.last_id, self.comments, self.ended = [], last_event_id, [], False
        self.status = self.headers = None
        self._raw = self._text = b""
        self._name, self._id, self._data = "message", None, []
        self._told = 0
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect((node.host, node.port))
        self.socket.sendall("\r\n".join(lines + ["", ""]).encode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    # --- what comes ------------------------------------------------------------------------------------------

    def receive(self, timeout):
        """Takes in what comes within that time. False: nothing did."""
        if self.ended:
            return False
        self.socket.settimeout(max(timeout, 0.001))
        try:
            data = self.socket.recv(1 << 20)
        except TimeoutError:
            return False
        except ConnectionError:
            data = b""
        self.ended = data == b""
        self._raw += data
        if self.status is None:
            self._take_head()
        if self.status == 200:
            self._take_chunks()
            self._take_lines()
        return True

    def _take_head(self):
        head, end, rest = self._raw.partition(b"\r\n\r\n")
        if not end:
            return
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        self._raw = rest

    def _take_chunks(self):
        while True:
            size, end, rest = self._raw.partition(b"\r\n")
            if not end or len(rest) < int(size, 16) + 2:
                return
            size = int(size, 16)
            assert rest[size:size + 2] == b"\r\n"
            self._text += rest[:size]
            self._raw = rest[size + 2:]
            self.ended = self.ended or size == 0

    def _take_lines(self):
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            self._take_line(line.decode())

    def _take_line(self, line):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            self._dispatch()
        elif field == "":
            self.comments.append(value)
        elif field == "event":
            self._name = value
        elif field == "id":
            self._id = value
        elif field == "data":
            self._data.append(value)
        else:
            assert field == "retry", line

    def _dispatch(self):
        if self._id is not None:
            self.last_id = self._id
        if self._data:
            self.events.append(Event(self._name, self._id, json.loads("\n".join(self._data))))
        self._name, self._id, self._data = "message", None, []

    # --- what a test asks ------------------------------------------------------------------------------------

    def expect(self, status, code=None):
        """The head has come and is this; a refusal's body too. Returns itself."""
        until = time.monotonic() + PATIENCE_S
        while self.status is None and time.monotonic() < until and not self.ended:
            self.receive(until - time.monotonic())
        if self.status != 200 and self.status is not None:
            while len(self._raw) < int(self.headers["content-length"]):
                assert self.receive(until - time.monotonic())
            Answer(self.status, _Headers(self.headers), self._raw).expect(status, code)
        assert self.status == status, (self.status, self._raw)
        return self

    def await_end(self, timeout=PATIENCE_S):
        until = time.monotonic() + timeout
        while not self.ended and time.monotonic() < until:
            self.receive(until - time.monotonic())
        assert self.ended, "it goes on"

    def next(self, timeout=PATIENCE_S, names=None):
        """The next event (of these names) that has not been asked for yet."""
        until = time.monotonic() + timeout
        while True:
            while self._told < len(self.events):
                self._told += 1
                event = self.events[self._told - 1]
                if names is None or event.name in names:
                    return event
            left = until - time.monotonic()
            assert not self.ended, f"the stream has ended after {self.events[-3:]}"
            assert left > 0, f"no {names or 'event'} within {timeout} s; the last: {self.events[-3:]}"
            self.receive(left)

    def seats(self, count, timeout=PATIENCE_S):
        """The next events of seats."""
        until = time.monotonic() + timeout
        return [self.next(until - time.monotonic(), SEAT_EVENTS) for _ in range(count)]

    def nothing_of_seats(self, seconds):
        """Nothing about a seat comes within that time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.receive(until - time.monotonic())
        rest = [event for event in self.events[self._told:] if event.name in SEAT_EVENTS]
        assert not rest, rest


SEAT_EVENTS = {"seat_held", "seat_released", "seat_sold", "seat_blocked", "seat_added", "seat_changed", "seat_removed"}


class _Headers(dict):
    def get(self, name, default=None):
        return super().get(name.lower(), default)


def follow(streams, done, timeout):
    """Reads all of them until done() says so."""
    until = time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.socket, selectors.EVENT_READ, stream)
        while not done():
            left = until - time.monotonic()
            assert left > 0, f"not within {timeout} s"
            for key, _ in selector.select(min(left, 0.2)):
                key.data.receive(0.001)
                if key.data.ended:
                    selector.unregister(key.fileobj)


def assert_versions_rise(events):
    """Per seat, each version is newer than the one before."""
    last = {}
    for event in events:
        if event.name in SEAT_EVENTS:
            seat, version = event.data["seat_id"], event.data["version"]
            assert version > last.get(seat, -1), (seat, version, last[seat])
            last[seat] = version
