"""Waiting for what is to happen, and making many things happen at once."""

import concurrent.futures
import select
import threading
import time


PATIENCE_S = 15.0  # with what comes within a second or two where the machine isn't busy: shows that it comes at all


class TooLate(AssertionError):
    """What was waited for did not come in time."""


def wait_until(predicate, timeout=PATIENCE_S, every=0.02, what=None):
    """Polls until `predicate()` is true, and returns what it returned. TooLate after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        result = predicate()
        if result:
            return result
        if time.monotonic() >= deadline:
            raise TooLate(f"not within {timeout} s: {what or getattr(predicate, '__name__', predicate)}; "
                          f"last answer: {result!r}")
        time.sleep(every)


def one_of(tries, trial):
    """The result of the first trial(1), trial(2), ... that isn't TooLate: a busy machine may stall in the middle of one;
    what is too slow is so each time. Anything else that fails ends it."""
    for number in range(1, tries):
        try:
            return trial(number)
        except TooLate:
            continue
    return trial(tries)


def at_once(count, function):
    """Calls function(0), ..., function(count - 1) on threads that start together; their results in order."""
    barrier = threading.Barrier(count)

    def one(index):
        barrier.wait(30)
        return function(index)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return [future.result() for future in [pool.submit(one, index) for index in range(count)]]


def something_has_come(sock):
    """Whether a socket can be read, be it its end; whatever its descriptor's number."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
