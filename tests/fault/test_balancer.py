"""conf/haproxy.cfg and conf/nginx.conf: who is asked, who counts as the client, and what is asked a second time."""

import contextlib
import statistics
import time

import pytest

from support.balancer import HAProxy, Nginx
from support.client import Client
from support.cluster import Cluster
from support.sse import EventStream
from support.swarm import Wire, hold_shot, shot
from support.waiting import wait_until

GENERAL_PER_MIN = 10
# Long enough for what tests ask of a node that drains; haproxy is to notice within less than the default, 2 s.
DRAIN_DELAY, NOTICED_S = "3s", 2


@pytest.fixture(scope="module")
def both_before(workplace, log_folder, database_url, empty_redis):
    """Three nodes, with both balancers before them."""
    with Cluster(workplace.path, log_folder, database_url, empty_redis, [HAProxy, Nginx], drain_delay=DRAIN_DELAY) as cluster:
        yield cluster


@pytest.fixture
def cluster(both_before):
    return both_before.whole()


@pytest.fixture(params=["haproxy", "nginx"])
def balancer(request, cluster):
    return next(each for each in cluster.balancers if each.name == request.param)


@pytest.fixture
def haproxy(cluster):
    return cluster.balancer


@pytest.fixture
def user(balancer, org):
    return Client(balancer, org, "user-1")


@pytest.fixture
def event(balancer, org):
    return Client(balancer, org, "admin-1", "admin").make_event(20)


def node_of(answer):
    return answer.headers["X-Holdfast-Node"]


def ids_of(cluster):
    return {node.node_id for node in cluster.nodes}


# --- who is asked --------------------------------------------------------------------------------------------


def test_every_node_is_asked_over_one_connection_of_a_client(cluster, user, event):
    seen = set()
    # A node that a busy machine holds up is asked a little later.
    wait_until(lambda: seen.update(node_of(user.seat(event, "A-1").expect(200)) for _ in range(30)) or seen == ids_of(cluster))


def test_a_node_that_drains_is_asked_no_more_before_it_closes(cluster, haproxy, org):
    user = Client(haproxy, org, "user-1")
    draining = cluster.nodes[0]
    draining.signal(15)
    wait_until(lambda: draining.settings["listen"] not in haproxy.up(), timeout=NOTICED_S)
    seen = {node_of(user.get("/api/events").expect(200)) for _ in range(30)}
    assert draining.running and seen == ids_of(cluster) - {draining.node_id}
    assert draining.await_end() == 0


def test_when_all_nodes_drain_they_still_answer_and_then_clients_are_told_to_come_back(cluster, haproxy, org):
    user = Client(haproxy, org, "user-1")
    for node in cluster.nodes:
        node.signal(15)
    wait_until(lambda: not haproxy.up(), timeout=NOTICED_S)
    user.get("/api/events").expect(200)
    for node in cluster.nodes:
        assert node.await_end() == 0
    answer = user.get("/api/events").expect(503, "draining")
    assert answer.headers["Retry-After"] == "1"


def test_the_node_judges_large_headers(user):
    filler = {f"X-Filler-{n}": "x" * 1000 for n in range(15)}
    user.get("/api/events", headers=filler).expect(200)
    answer = user.get("/api/events", headers=filler | {"X-More": "x" * 1500}).expect(431)
    assert node_of(answer)


# --- who is the client -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def limited(workplace, log_folder, database_url, empty_redis):
    """A node alone, so that all requests count in one place; made by limited(trusted_proxies)."""
    made = contextlib.ExitStack()

    def make(trusted_proxies):
        cluster = Cluster(workplace.path, log_folder, database_url, empty_redis, [HAProxy, Nginx], nodes=1,
                          rate_limits="on", rate_general_per_min=GENERAL_PER_MIN, trusted_proxies=trusted_proxies)
        return made.enter_context(cluster)

    with made:
        yield make


@pytest.fixture(scope="module")
def trusting(limited):
    return limited("127.0.0.1")


@pytest.fixture(params=[0, 1], ids=["haproxy", "nginx"])
def trusted(request, trusting):
    return trusting.balancers[request.param]


@pytest.fixture(scope="module")
def addresses():
    """Clients' addresses, each of which no other test has."""
    return (f"127.0.0.{n}" for n in range(2, 255))


def statuses(balancer, source, count, **headers):
    """What a client at this address is answered, over one connection."""
    request = shot(Client(balancer, "org-limits", "user-1"), "GET", "/api/events", headers=headers)
    wire = Wire(balancer, source)
    try:
        answers = []
        for _ in range(count):
            wire.send(request.data)
            answers.append(wire.answer().status)
        return answers
    finally:
        wire.close()


def test_limits_count_each_client_behind_the_balancer(trusted, addresses):
    all_of_it = [200] * GENERAL_PER_MIN + [429]
    assert statuses(trusted, next(addresses), GENERAL_PER_MIN + 1) == all_of_it
    assert statuses(trusted, next(addresses), GENERAL_PER_MIN + 1) == all_of_it


def test_a_client_cannot_speak_for_another_address(trusted, addresses):
    one, other = next(addresses), next(addresses)
    assert statuses(trusted, one, GENERAL_PER_MIN, **{"X-Forwarded-For": "198.51.100.7"}) == [200] * GENERAL_PER_MIN
    # Neither has it got a second allowance, nor has it used somebody else's.
    assert statuses(trusted, one, 1, **{"X-Forwarded-For": "198.51.100.8, 127.0.0.1"}) == [429]
    assert statuses(trusted, other, 1, **{"X-Forwarded-For": one}) == [200]


def test_a_balancer_that_nobody_trusts_is_one_client(limited, addresses):
    balancer = limited("10.0.0.5").balancer
    assert statuses(balancer, next(addresses), GENERAL_PER_MIN) == [200] * GENERAL_PER_MIN
    assert statuses(balancer, next(addresses), 1) == [429]


# --- what is asked a second time -------------------------------------------------------------------------------


def stuck_on(frozen, shots):
    """Sends these while the node is frozen, each on a connection of its own; {shot: wire} of those that it was given."""
    frozen.pause()
    wires = {a_shot: Wire(a_shot.node) for a_shot in shots}
    for a_shot, wire in wires.items():
        wire.send(a_shot.data)

    def stuck():
        return {a_shot: wire for a_shot, wire in wires.items() if wire.silent()}

    wait_until(lambda: len(stuck()) == unread(frozen, len(shots[0].data)), what="the others have answered")
    found = stuck()
    assert 0 < len(found) < len(shots), f"{frozen.node_id} was given {len(found)} of {len(shots)}"
    return found


def unread(node, least):
    """How many of its connections have so many bytes or more that it has not read: no check of a balancer is as long."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table][1:]
    return sum(int(row[1].partition(":")[2], 16) == node.port and int(row[4].partition(":")[2], 16) >= least for row in rows)


def test_a_read_that_a_killed_node_had_is_answered_by_another(cluster, user, event):
    reads = [shot(user, "GET", f"/api/events/{event}/seats/A-{n}") for n in range(1, 10)]
    killed = cluster.nodes[1]
    stuck = stuck_on(killed, reads)
    killed.kill()
    for wire in stuck.values():
        assert node_of(wire.answer().expect(200)) in ids_of(cluster) - {killed.node_id}


def test_a_hold_that_a_killed_node_had_is_asked_for_again_by_the_client_alone(cluster, user, event, org):
    holds = [hold_shot(user.as_user(f"buyer-{n}"), event, f"A-{n}", cart=f"cart-{n}") for n in range(1, 10)]
    killed = cluster.nodes[2]
    stuck = stuck_on(killed, holds)
    killed.kill()
    for a_shot, wire in stuck.items():
        answer = wire.answer().expect(503, "outcome_unknown")
        assert answer.headers["Retry-After"] == "1" and answer.json["status"] == 503
        again = Wire(a_shot.node)
        again.send(a_shot.data)
        assert again.answer().status in (200, 201)
    cluster.prove(org, event)


def test_a_request_has_one_name_everywhere(user):
    assert user.get("/api/events", headers={"X-Request-Id": "mine-1"}).headers["X-Request-Id"] == "mine-1"
    first, second = (user.get("/api/events").headers["X-Request-Id"] for _ in range(2))
    assert first != second and len(first) >= 32


# --- streams ---------------------------------------------------------------------------------------------------


def test_a_stream_is_passed_on_at_once(cluster, user, event):
    """Compared with one that its node sends us without a balancer."""
    with EventStream(user, event) as stream:
        stream.expect(200).next()
        its_node = next(node for node in cluster.nodes if node.node_id == stream.headers["x-holdfast-node"])
        with EventStream(user, event, node=its_node) as straight:
            straight.expect(200).next()
            lags = []
            for number in range(1, 12):
                user.held(event, f"A-{number}", cart=f"cart-{number}")
                straight.seats(1)
                sent = time.monotonic()
                stream.seats(1)
                lags.append(time.monotonic() - sent)
    # A balancer that waits for more to send waits 200 ms.
    assert statistics.median(lags) < 0.1, lags


def test_a_stream_goes_on_at_another_node_when_its_own_goes(cluster, user, event):
    with EventStream(user, event) as stream:
        stream.expect(200).next()
        user.held(event, "A-1")
        stream.seats(1)
        its_node = next(node for node in cluster.nodes if node.node_id == stream.headers["x-holdfast-node"])
        its_node.stop()
        stream.await_end()
    user.held(event, "A-2", cart="cart-2")
    with EventStream(user, event, last_event_id=stream.last_id) as resumed:
        assert resumed.expect(200).headers["x-holdfast-node"] != its_node.node_id
        [told] = resumed.seats(1)
    assert (told.name, told.data["seat_id"]) == ("seat_held", "A-2")
    assert "reset" not in [each.name for each in resumed.events]
