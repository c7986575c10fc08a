"""Thousands of readers of one event's stream, in a process of their own.

    with Listeners(node, token, event, 2000, silent=100) as listeners:   # each has had its first event
        ...
        told = listeners.report()     # heard: events of seats per reader; ended: how many were cut off; and a sample

The last `silent` of them never read. Events are counted, not parsed, since the readers share the machine with what they
test; of the sample every (seat, version) is kept. With `heeding` only so many of them count, and the others let the kernel
throw away what has come.
"""

import json
import os
import pathlib
import re
import select
import socket
import subprocess
import sys

from support.supervise import child

SOURCES = [f"127.0.0.{n}" for n in range(2, 10)]  # each has ports for 28,000
PORTION, SAMPLE = 200, 5
MARK = b'"seat_id"'
SEAT_AT = re.compile(rb'"seat_id":"([^"]+)","status":"\w+","version":(\d+)')
RECEIVE_BYTES = 1 << 18
UNTOUCHED = bytearray(RECEIVE_BYTES)


class Listeners:
    def __init__(self, node, token, event, count, silent=0, heeding=None):
        numbers = (count, silent, count if heeding is None else heeding)
        self._arguments = [node.host, str(node.port), token, event, *map(str, numbers)]
        self._child = None

    def __enter__(self):
        command = [sys.executable, "-B", "-m", "support.listeners", *self._arguments]
        self._child = child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            cwd=pathlib.Path(__file__).resolve().parent.parent, env=os.environ | {"PYTHONPATH": "."})
        self._process = self._child.__enter__()
        try:
            assert self._line() == "open"
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *exception):
        self._process.stdin.close()
        self._child.__exit__(*exception)

    def report(self):
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        return json.loads(self._line())

    def _line(self):
        line = self._process.stdout.readline()
        assert line, "the listeners have ended"
        return line.rstrip("\n")


# --- the other process -------------------------------------------------------------------------------------------


class Reader:
    def __init__(self, number, address, request, is_silent, heeds):
        self.heeds = heeds
        self.socket = socket.socket()
        if is_silent:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.bind((SOURCES[number % len(SOURCES)], 0))
        self.socket.connect(address)
        self.socket.sendall(request)
        self.heard, self.rest, self.ended = 0, b"", False
        self.pairs = [] if number < SAMPLE else None

    def await_first(self):
        """Its stream has begun: whatever happens from now on, it hears."""
        while b"occupancy_changed" not in self.rest:
            data = self.socket.recv(4096)
            assert data, "refused"
            self.rest += data
        assert self.rest.startswith(b"HTTP/1.1 200"), self.rest
        self.rest = b""

    def take(self, data):
        """No event is cut but by the kernel: what may be the beginning of a mark is kept."""
        data = self.rest + data
        self.heard += data.count(MARK)
        if self.pairs is None:
            self.rest = data[-len(MARK) + 1:]
            return
        cut = data.rfind(b"\n\n") + 2
        self.heard -= data[cut:].count(MARK)  # they come again
        self.pairs += [[seat.decode(), int(version)] for seat, version in SEAT_AT.findall(data[:cut])]
        self.rest = data[cut:]


class Hall:
    """All readers and one poll."""

    def __init__(self):
        self.readers, self.silent, self.poll = {}, [], select.epoll()

    def open(self, address, token, event, count, silent, heeding):
        request = (f"GET /api/events/{event}/stream HTTP/1.1\r\nHost: holdfast\r\n"
                   f"Authorization: Bearer {token}\r\n\r\n").encode()
        for first in range(0, count, PORTION):
            portion = [Reader(n, address, request, n >= count - silent, n < heeding)
                       for n in range(first, min(count, first + PORTION))]
            for reader in portion:
                reader.await_first()
            for number, reader in enumerate(portion, first):
                self.add(reader, number >= count - silent)

    def add(self, reader, is_silent):
        if is_silent:
            self.silent.append(reader)
            return
        reader.socket.setblocking(False)
        self.readers[reader.socket.fileno()] = reader
        self.poll.register(reader.socket, select.EPOLLIN)

    def turn(self):
        for descriptor, _ in self.poll.poll(0.2, 4096):
            if descriptor == 0:
                return True
            self.receive(descriptor, self.readers[descriptor])
        return False

    def receive(self, descriptor, reader):
        try:
            if not reader.heeds and reader.socket.recv_into(UNTOUCHED, RECEIVE_BYTES, socket.MSG_TRUNC):
                return  # something came, and was not even copied (tcp(7))
            data = reader.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            reader.take(data)
            return
        reader.ended = True
        self.poll.unregister(descriptor)

    def report(self):
        readers = list(self.readers.values())
        return {"heard": [reader.heard for reader in readers if reader.heeds], "ended": sum(reader.ended for reader in readers),
                "sample": [reader.pairs for reader in readers if reader.pairs is not None]}


def main():
    host, port, token, event, count, silent, heeding = sys.argv[1:]
    os.nice(10)  # their machines would be others than the node's
    hall = Hall()
    hall.open((host, int(port)), token, event, int(count), int(silent), int(heeding))
    print("open", flush=True)
    hall.poll.register(0, select.EPOLLIN)
    while True:
        if not hall.turn():
            continue
        if not sys.stdin.readline():
            return
        print(json.dumps(hall.report()), flush=True)


if __name__ == "__main__":
    from support.swarm import allow_descriptors
    allow_descriptors()
    main()
