"""Postgres moves to another address: a standby takes over, a host is silent. No node is restarted by hand."""

import shutil
import socket
import subprocess
import time
import urllib.parse
import uuid

import pytest

from support import servers
from support.asking import ask, end_all_sessions
from support.buyers import Buyers
from support.client import Client
from support.node import Node
from support.waiting import wait_until

REQUEST_TIMEOUT_S = 3
SLACK_S = 2  # of a busy machine; less than to wait for another host as long again
SEATS = 3000


class Standby(servers.Postgres):
    """A server that follows `primary` until it is promoted."""

    def __init__(self, folder, primary):
        super().__init__(folder, {"shared_buffers": "64MB"})
        self.primary = primary

    def _initdb(self):
        password = self.folder / "password"
        shutil.copy(self.primary.folder / "password", password)
        servers.hand_to_server_user(password)
        command = [servers.POSTGRES_BIN / "pg_basebackup", "--pgdata", self.data, "--checkpoint=fast",
                   "--write-recovery-conf", "--dbname", f"{self.primary.url()}?application_name=standby"]
        subprocess.run(servers.as_server_user(command, "TERM"), cwd=self.folder, check=True, timeout=60)

    def promote(self):
        assert ask(self.url(), "SELECT pg_promote(true, 30)") is True


def one_of(*places):
    """The URL that names them all. `places`: servers, or ports of whatever listens there."""
    server = next(place for place in places if isinstance(place, servers.Postgres))
    parts = urllib.parse.urlsplit(server.url())
    hosts = ",".join(f"127.0.0.1:{getattr(place, 'port', place)}" for place in places)
    login = parts.netloc.rpartition("@")[0]
    return parts._replace(netloc=f"{login}@{hosts}", query="target_session_attrs=read-write").geturl()


@pytest.fixture
def node_id():
    """A name, and so a log, that no node of a former run had."""
    return f"node-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def standby(workplace, own_postgres):
    server = Standby(workplace.path / f"standby-{uuid.uuid4().hex[:8]}", own_postgres)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(server.folder)


@pytest.fixture
def silent_port():
    """A port where connections are accepted, by the kernel, and nobody ever answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=500) as listener:
        yield listener.getsockname()[1]


def make_synchronous(primary):
    """From here on a commit is answered when the standby has it, too."""
    ask(primary.url(), "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
    ask(primary.url(), "SELECT pg_reload_conf()")
    wait_until(lambda: ask(primary.url(), "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1)


def events_of(node, name):
    return [line for line in node.log_lines() if line["event"] == name]


def test_a_standby_takes_over_and_has_every_hold_that_was_told(start_node, log_folder, own_postgres, standby, org,
                                                               node_id):
    both = one_of(own_postgres, standby)
    node = start_node(database_url=both, redis_url="", node_id=node_id, request_timeout=f"{REQUEST_TIMEOUT_S}s")
    make_synchronous(own_postgres)
    event = Client(node, org, "admin", "admin").make_event(SEATS)
    waiting = Node(log_folder, standby.url(), node_id=f"{node_id}-waiting")  # nothing can be written there yet
    waiting.spawn()
    refused = lambda: [line for line in waiting.log_lines() if "session is read-only" in line.get("error", "")]
    wait_until(refused, timeout=30, what="it has tried")
    with Buyers(node, org, event, SEATS) as buyers:
        buyers.goes_on(within=20, holds=100)
        assert not events_of(node, "postgres_is_another")
        own_postgres.crash()
        wait_until(lambda: buyers.refusals, timeout=10)
        standby.promote()
        buyers.goes_on(within=5)
        buyers.goes_on(within=20, holds=100)
        assert max(buyers.waits) < REQUEST_TIMEOUT_S + SLACK_S
    assert len(events_of(node, "postgres_is_another")) == 1
    buyers.prove(both, node)

    waiting.await_listening()
    assert len(refused()) == 1, refused()
    waiting.stop()


def test_what_a_server_of_before_said_is_void(start_node, own_postgres, standby, org, node_id):
    """A standby that lagged behind: what it never had is free, whatever this node remembers of it."""
    node = start_node(database_url=one_of(own_postgres, standby), redis_url="", node_id=node_id)
    event = Client(node, org, "admin", "admin").make_event(10)
    user, other = Client(node, org, "user-1"), Client(node, org, "user-2")
    user.hold_one(event, "A-1").expect(201)
    position = ask(own_postgres.url(), "SELECT pg_current_wal_lsn()")
    wait_until(lambda: ask(standby.url(), f"SELECT pg_last_wal_replay_lsn() >= '{position}'"))
    standby.stop()
    user.hold_one(event, "A-2").expect(201)
    other.hold_one(event, "A-2").expect(409, "seat_taken")

    own_postgres.crash()
    standby.start()
    standby.promote()
    wait_until(lambda: other.hold_one(event, "A-2").status == 201, timeout=10, what="the lost seat is free")
    other.hold_one(event, "A-1").expect(409, "seat_taken")
    assert len(events_of(node, "postgres_is_another")) == 1


def test_a_silent_first_host_costs_no_request_its_time(start_node, own_postgres, silent_port, org):
    url = one_of(silent_port, own_postgres)
    node = start_node(database_url=url, redis_url="", request_timeout=f"{REQUEST_TIMEOUT_S}s")
    event = Client(node, org, "admin", "admin").make_event(SEATS)
    with Buyers(node, org, event, SEATS) as buyers:
        buyers.goes_on(within=20, holds=50)
        end_all_sessions(own_postgres.url())
        buyers.goes_on(within=5)
        buyers.goes_on(within=20, holds=50)
        assert max(buyers.waits) < REQUEST_TIMEOUT_S + SLACK_S
    buyers.prove(own_postgres.url(), node)


def test_a_host_that_goes_silent_is_left_for_another(start_node, own_postgres, proxied, org):
    proxy, _ = proxied(own_postgres.url())
    url = one_of(proxy, own_postgres)
    node = start_node(database_url=url, redis_url="", request_timeout=f"{REQUEST_TIMEOUT_S}s")
    event = Client(node, org, "admin", "admin").make_event(SEATS)
    with Buyers(node, org, event, SEATS) as buyers:
        buyers.goes_on(within=20, holds=50)
        proxy.freeze()
        time.sleep(REQUEST_TIMEOUT_S)  # what is under way may wait for so long
        buyers.goes_on(within=5)
        buyers.goes_on(within=20, holds=100)
        proxy.thaw()
        buyers.goes_on(within=5)
        assert max(buyers.waits) < REQUEST_TIMEOUT_S + SLACK_S
    buyers.prove(own_postgres.url(), node)
