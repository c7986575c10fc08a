"""Three nodes behind proxies, a Postgres and a Redis, all of which may be broken at any time and mended again."""

import concurrent.futures
import contextlib
import glob
import os
import signal
import subprocess
import time
import urllib.parse
from multiprocessing import managers

import psycopg2
import redis as redis_module

from support import servers
from support.checkouts import WEBHOOK_SECRET
from support.node import Node, binary
from support.proxy import Proxy, at_port

NODES = ("node-1", "node-2", "node-3")
FAKETIME = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")

# Which clocks of a node faketime moves. Postgres' clock judges, so any of it may be wrong:
#   wall    CLOCK_REALTIME alone jumps, forward and back
#   all     also CLOCK_BOOTTIME and CLOCK_MONOTONIC jump, forward only: as after a suspended machine
FAKED_CLOCKS = {"node-2": "wall", "node-3": "all"}


class Relay(Proxy):
    def where(self):
        return self.port


class Relays(managers.BaseManager):
    """Runs the proxies in a process of their own, so that clients and proxies don't wait for one interpreter."""


Relays.register("Relay", Relay)


class RelayClient:
    """A proxy of that process."""

    def __init__(self, relays, url):
        parts = urllib.parse.urlsplit(url)
        self._proxy = relays.Relay(parts.hostname, parts.port)
        self.url = at_port(self._proxy.where(), url)

    def __getattr__(self, name):
        return getattr(self._proxy, name)


class ArenaNode(Node):
    """A node at a fixed address whose clocks can be moved."""

    def __init__(self, folder, node_id, clocks, *urls, **settings):
        super().__init__(folder, *urls, node_id=node_id, listen=f"127.0.0.1:{servers.free_port()}", **settings)
        self.port = int(self.settings["listen"].rpartition(":")[2])
        self.clocks = clocks
        self.clock_file = self.folder / f"{node_id}.clock"
        self.ahead_s = 0.0
        self.move_clock(0.0)

    def move_clock(self, ahead_s):
        """Takes effect within a second."""
        self.ahead_s = ahead_s
        fresh = self.clock_file.with_suffix(".new")
        fresh.write_text(f"{ahead_s:+.3f}\n")
        fresh.replace(self.clock_file)

    def environment(self):
        environment = super().environment()
        if self.clocks is None:
            return environment
        return environment | {
            "LD_PRELOAD": FAKETIME[0], "FAKETIME_TIMESTAMP_FILE": str(self.clock_file), "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1" if self.clocks == "wall" else "0", "NO_FAKE_STAT": "1"}

    def start_again(self, patience=60):
        """As a supervisor would: a node that ends before it is ready is started anew."""
        deadline = time.monotonic() + patience
        while True:
            try:
                return self.start(max(1.0, deadline - time.monotonic()))
            except AssertionError:
                if self.running or time.monotonic() > deadline:
                    raise
                time.sleep(0.5)


def can_fake_clocks():
    """Sanitizers want to be loaded first, which is where faketime has to be."""
    linked = subprocess.run(["ldd", binary()], capture_output=True, text=True, check=False).stdout
    return bool(FAKETIME) and "libasan" not in linked and "libtsan" not in linked


class Arena:
    """A context manager; everything that it started has ended on leaving."""

    def __init__(self, secret):
        self._stack = contextlib.ExitStack()
        self._secret = secret
        # Servers end with the thread that started them: this one lives as long as the arena.
        self._starter = concurrent.futures.ThreadPoolExecutor(1, "starter")

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _start(self, stack):
        relays = Relays()
        relays.start(initializer=servers.die_with_parent)
        stack.callback(relays.shutdown)
        self.place = stack.enter_context(servers.Workplace.any("chaos"))
        stack.callback(self._starter.shutdown)
        self.postgres = self.place.postgres(fresh=True, shared_buffers="64MB")
        self.redis = self.place.redis()
        self.database_url = servers.make_database(self.postgres.url(), "chaos")
        self.redis_url = self.redis.url()
        stack.callback(self.signal_postgres, signal.SIGCONT)
        self.postgres_proxies = {name: RelayClient(relays, self.database_url) for name in NODES}
        self.redis_proxies = {name: RelayClient(relays, self.redis_url) for name in NODES}
        self._make_nodes(stack)

    def _make_nodes(self, stack):
        folder = self.place.folder("nodes")
        for log in folder.glob("*.log"):
            log.unlink()
        clocks = FAKED_CLOCKS if can_fake_clocks() else {}
        self.nodes = {}
        for name in NODES:
            self.nodes[name] = ArenaNode(
                folder, name, clocks.get(name), self.postgres_proxies[name].url, self.redis_proxies[name].url,
                jwt_secret=self._secret, webhook_secret=WEBHOOK_SECRET, drain_delay="200ms", reaper_interval_ms=1000)
            self.nodes[name].start()
            stack.callback(self._end_node, self.nodes[name])

    @staticmethod
    def _end_node(node):
        if node.running:
            node.kill()

    # --- Postgres and Redis as a whole -----------------------------------------------------------------------

    def postgres_processes(self):
        return servers.processes_in(self.postgres.folder)

    def kill_postgres(self):
        """kill -9 of the postmaster and all that it started."""
        self.signal_postgres(signal.SIGKILL)
        self.postgres.process.wait()
        while self.postgres_processes():
            time.sleep(0.02)

    def signal_postgres(self, signum):
        """The postmaster first, so that it starts nothing meanwhile."""
        for pid in sorted(self.postgres_processes(), key=lambda pid: pid != self.postgres.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    def start_postgres(self):
        port = self.postgres.port
        self._starter.submit(self.postgres.start).result()
        assert self.postgres.port == port, "somebody else took the port of Postgres"

    def start_redis(self):
        port = self.redis.port
        self._starter.submit(self.redis.start).result()
        assert self.redis.port == port, "somebody else took the port of Redis"

    def mend(self):
        """Whatever was broken: everything runs, everything passes."""
        for proxy in (*self.postgres_proxies.values(), *self.redis_proxies.values()):
            proxy.disarm(), proxy.allow(), proxy.thaw(), proxy.slow(0), proxy.appear()
        self.signal_postgres(signal.SIGCONT)
        if self.postgres.process.poll() is not None:
            self.start_postgres()
        if self.redis.process.poll() is not None:
            self.start_redis()
        self.redis.resume()
        for node in self.nodes.values():
            if node.running:
                node.resume()
            else:
                node.start_again()

    # --- a look inside ---------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def database(self):
        connection = psycopg2.connect(self.database_url, connect_timeout=10)
        connection.autocommit = True
        try:
            yield connection
        finally:
            connection.close()

    @contextlib.contextmanager
    def redis_connection(self):
        connection = redis_module.Redis.from_url(self.redis_url, socket_timeout=5)
        try:
            yield connection
        finally:
            connection.close()
