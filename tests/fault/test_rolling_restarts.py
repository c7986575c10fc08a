"""Nodes are restarted one after the other while people buy: nobody behind the balancer notices."""

import contextlib

import pytest

from support.balancer import HAProxy, Nginx
from support.client import Client
from support.cluster import Cluster
from support.house import LONG
from support.load import SteadyLoad
from support.swarm import pause, shot
from support.waiting import wait_until

RESTARTS = 100 if LONG else 10
CONNECTIONS = 25  # through each balancer
SEATS_EACH = 4
DRAIN_DELAY = "2s"  # the default; conf/haproxy.cfg needs 0.7 s to notice, and longer on a busy machine
LOOK_AGAIN_S = 0.05
# From hold to hold of one buyer; ours is not to load the machine, but to have requests under way at every moment.
PACE_S = 0.1


class LoadBehindBalancer(SteadyLoad):
    """Each request may go to another node, which learns from its peers, within a second, what the last one did."""

    def _look(self, number, user, told):
        path = f"/api/events/{self.event}/seats/{told.seat}"
        for _ in range(int(1 / LOOK_AGAIN_S)):
            answer = yield from self._ask(number, user, lambda at: shot(at, "GET", path))
            if answer is None or (answer.status == 200 and answer.json["status"] == "held" and answer.json.get("mine")):
                return
            if answer.status != 200:
                break
            yield pause(LOOK_AGAIN_S)
        self._wrong(f"{user.user} has {told.seat} and looks", answer)


@pytest.fixture
def cluster(workplace, log_folder, database_url, empty_redis):
    with Cluster(workplace.path, log_folder, database_url, empty_redis, [HAProxy, Nginx],
                 drain_delay=DRAIN_DELAY) as cluster:
        yield cluster


def test_rolling_restarts_fail_no_request(cluster):
    admin = Client(cluster.balancer, "org-rolling", "admin-1", "admin")
    with contextlib.ExitStack() as stack:
        loads = [stack.enter_context(load_through(balancer, admin)) for balancer in cluster.balancers]
        for number in range(RESTARTS):
            node = cluster.nodes[number % len(cluster.nodes)]
            node.restart()
            cluster.await_up()
            await_traffic(node)
            for load in loads:
                assert not load.wrong, f"{load.nodes[0].name}, restart {number}: " + "\n".join(load.wrong[:5])
    print(f"{RESTARTS} restarts during {sum(len(load.granted_at) for load in loads)} holds and what people did with them")
    for load in loads:
        with cluster.database() as db:
            load.assert_as_told(db)
        assert not load.excused
        cluster.prove(admin.org, load.event)


def load_through(balancer, admin):
    event = admin.make_event(CONNECTIONS * SEATS_EACH)
    return LoadBehindBalancer([balancer], admin.org, event, CONNECTIONS, SEATS_EACH, pace_s=PACE_S)


def await_traffic(node):
    """Until it is sent requests again."""
    granted = 'holdfast_holds_total{outcome="created"}'
    before = node.metrics()[granted]
    wait_until(lambda: node.metrics()[granted] > before + 5, timeout=20, what=f"{node.node_id} grants holds again")
