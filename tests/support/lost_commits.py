"""Requests whose COMMIT gets lost on its way to Postgres, or whose answer does on its way back."""

from support.swarm import ask
from support.waiting import wait_until


def fire_into(proxy, how, a_shot, passing=0):
    """The answer to a request whose COMMIT meets that fate. passing: so many are committed before."""
    proxy.at(b"COMMIT", how, passing)
    wire = ask(a_shot)
    assert proxy.ambushed.wait(10), "no COMMIT came by"
    if how == "keep the request":
        # The node asks for the outcome of a transaction that has not begun yet, and makes sure that it never will.
        wait_until(lambda: not wire.silent(), timeout=20, what="it is answered")
        proxy.deliver()
    return wire.answer(timeout=20)
