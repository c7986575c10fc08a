"""A steady load of buyers who remember what they were told, and how long they waited for it."""

import threading
import time

import psycopg2

from checker import audit_checker
from support.client import Client
from support.node import verify
from support.truth import assert_told_is_true
from support.waiting import wait_until

PAUSE_S = 0.02


class Buyers:
    """Threads that hold seats A-1, A-2, ... one after the other, each seat once. A context manager: they stop at its end.

    A seat that was answered 503 is asked for again with the same cart, as a client would; `told` has every hold that
    was answered 201 (or 200, to one who asked again), `waits` the seconds that each answer took.
    """

    def __init__(self, node, org, event, seats, count=6):
        self.event, self.org = event, org
        self.told, self.waits, self.refusals, self.troubles = [], [], [], []
        self._seats = iter(range(1, seats + 1))
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(Client(node, org, f"buyer-{n}"),), daemon=True)
                         for n in range(count)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
        assert not self.troubles, self.troubles[:5]

    def _next_seat(self):
        with self._guard:
            number = next(self._seats, None)
        return number and f"A-{number}"

    def _run(self, user):
        try:
            while not self._stopping.is_set() and (seat := self._next_seat()):
                self._buy(user, seat)
        except Exception as trouble:  # pylint: disable=broad-except
            self.troubles.append(repr(trouble))

    def _buy(self, user, seat):
        while not self._stopping.wait(PAUSE_S):
            began = time.monotonic()
            answer = user.hold(self.event, seat, cart=f"cart-{seat}")
            self.waits.append(time.monotonic() - began)
            if answer.status in (200, 201):
                self.told.append(answer.json)
                return
            assert answer.status == 503, answer
            self.refusals.append(answer.code)

    def goes_on(self, within, holds=20):
        """Waits until so many more holds were granted; how long that took."""
        began, wanted = time.monotonic(), len(self.told) + holds
        wait_until(lambda: len(self.told) >= wanted or self.troubles, timeout=within,
                   what=f"{holds} more holds; {len(self.told)} so far, last refused: {self.refusals[-3:]}")
        return time.monotonic() - began

    def prove(self, database_url, node):
        """Every hold that was told stands in this database, whose story is one that could have happened."""
        connection = psycopg2.connect(database_url, connect_timeout=10)
        try:
            connection.autocommit = True
            violations = audit_checker.check_event(connection, self.org, self.event)
            assert not violations, "\n".join(map(str, violations))
            assert_told_is_true(connection, self.org, self.event, self.told, complete=False)
        finally:
            connection.close()
        verify(node)
