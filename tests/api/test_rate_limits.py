"""Limits per client address: 60 requests and 20 holds a minute, 100 requests in 5 s, 10 maps in 2 s."""

import itertools

import pytest

from support.client import Client
from support.contract import check_problem
from support.wire import Wire, request

# Whoever comes from 127.0.0.0/8 or 10.9.9.9 is a proxy of ours, and what it says of its client is believed.
NODE_SETTINGS = {"rate_limits": "on", "trusted_proxies": "127.0.0.0/8,10.9.9.9"}

_addresses = (f"198.51.{a}.{b}" for a, b in itertools.product(range(100), range(1, 255)))


class Visitor(Client):
    """A client that comes through our proxy from an address of its own."""

    def __init__(self, node, org, user=None, role="user", address=None):
        super().__init__(node, org, user, role)
        self.address = address or next(_addresses)

    def request(self, method, path, headers=None, **more):
        return super().request(method, path, headers={"X-Forwarded-For": self.address} | (headers or {}), **more)


@pytest.fixture
def visitor(node, org):
    return Visitor(node, org, "user-1")


def in_one_write(visitor, paths):
    """GETs of all these paths before the first is answered: however slow the machine is, they come within a moment."""
    forwarded = f"X-Forwarded-For: {visitor.address}".encode()
    with Wire(visitor.node, timeout=60) as wire:
        wire.send(b"".join(request(visitor, "GET", path, headers=[forwarded]) for path in paths))
        return [wire.answer() for _ in paths]


def policy_of(answer):
    """("name", q, w, r, t) of the two RateLimit headers."""
    policy, _, parameters = answer.headers["RateLimit-Policy"].partition(";")
    now, _, state = answer.headers["RateLimit"].partition(";")
    assert policy == now and policy.startswith('"') and policy.endswith('"')
    numbers = dict(pair.split("=") for pair in f"{parameters};{state}".split(";"))
    return (policy.strip('"'), *(int(numbers[name]) for name in "qwrt"))


def test_60_requests_a_minute(visitor):
    for left in reversed(range(60)):
        _, q, w, r, t = policy_of(visitor.get("/api/events").expect(200))
        assert (q, w, r) == (60, 60, left) and 0 <= t <= 60
    answer = visitor.get("/api/events")
    check_problem(answer, "rate_limited", "/api/events")
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert policy_of(answer)[3] == 0
    Visitor(visitor.node, visitor.org).get("/api/events").expect(200)


def test_20_holds_a_minute_over_all_routes_that_hold(visitor):
    """The body doesn't matter: a refused hold counts too."""
    for number in range(20):
        answer = visitor.hold("nowhere", "A-1") if number % 2 else visitor.hold_one("nowhere", "A-1")
        answer.expect(404, "event_not_found")
    assert policy_of(answer)[1:4] == (20, 60, 0)
    check_problem(visitor.hold("nowhere", "A-1"), "rate_limited", "/api/holds")
    check_problem(visitor.hold_one("nowhere", "A-1"), "rate_limited")
    visitor.get("/api/events").expect(200)


def test_more_than_100_requests_in_5_seconds_block_the_address(visitor):
    codes = [answer.code for answer in in_one_write(visitor, ["/api/events"] * 101)]
    assert codes[:60] == [None] * 60
    assert codes[60:100] == ["rate_limited"] * 40
    assert codes[100] == "blocked"
    answer = visitor.get("/api/events")
    check_problem(answer, "blocked")
    assert 3500 <= int(answer.headers["Retry-After"]) <= 3600
    check_problem(visitor.hold("nowhere", "A-1"), "blocked")


def test_the_eleventh_distinct_map_in_2_seconds_blocks(visitor):
    numbers = [*range(10), 3, 10]  # one of the ten again before the eleventh
    *within, beyond = in_one_write(visitor, [f"/api/events/e-{number}/seats" for number in numbers])
    for answer in within:
        answer.expect(404, "event_not_found")
    check_problem(beyond, "blocked")
    check_problem(visitor.get("/api/events"), "blocked")


def test_health_has_no_limit(visitor):
    for number in range(150):
        visitor.get(("/health", "/ready", "/metrics")[number % 3]).expect(200)
    visitor.get("/api/events").expect(200)


def test_a_wrong_token_counts_too(node, org):
    visitor = Visitor(node, org)
    visitor.token = "x.y.z"
    codes = [visitor.get("/api/events").code for _ in range(61)]
    assert codes == ["unauthenticated"] * 60 + ["rate_limited"]


def test_the_last_hop_that_is_not_trusted_is_the_client(node, org):
    """A client may write any X-Forwarded-For: only what our proxies added to it counts."""
    address = next(_addresses)
    lies = (f"203.0.113.{n % 200 + 1}" for n in itertools.count())
    codes = [Visitor(node, org, address=f"{next(lies)}, {address}, 10.9.9.9").get("/api/events").code for _ in range(61)]
    assert codes == [None] * 60 + ["rate_limited"]


def test_without_trusted_proxies_the_peer_is_the_client(start_node, org):
    node = start_node(rate_limits="on", rate_general_per_min=5)
    codes = [Visitor(node, org).get("/api/events").code for _ in range(6)]
    assert codes == [None] * 5 + ["rate_limited"]


def test_addresses_of_ipv6_count_by_network(node, org):
    """Who has one address of IPv6 has a whole /64."""
    codes = [Visitor(node, org, address=f"2001:db8:7:7::{n:x}").get("/api/events").code for n in range(1, 62)]
    assert codes == [None] * 60 + ["rate_limited"]


def test_limits_that_are_off_limit_nothing(start_node, org):
    visitor = Visitor(start_node(rate_limits="off"), org)
    answers = [visitor.seats(f"e-{n}") for n in range(130)]
    assert {answer.status for answer in answers} == {404}
    assert "RateLimit" not in answers[0].headers


def test_a_refusal_by_limit_is_not_kept_for_its_key(node, org):
    """The same key may win when the minute is over."""
    visitor = Visitor(node, org)
    for _ in range(20):
        visitor.hold("nowhere", "A-1")
    key = {"Idempotency-Key": "k"}
    check_problem(visitor.hold("nowhere", "A-1", headers=key), "rate_limited")
    later = Visitor(node, org, visitor.user)  # the same user from another address
    later.hold("nowhere", "A-1", headers=key).expect(404, "event_not_found")
