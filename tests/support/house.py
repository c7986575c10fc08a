"""Servers and nodes that a module of tests may break: a Postgres, a Redis and two nodes of its own.

    @pytest.fixture(scope="module")
    def broken_house(workplace, log_folder):
        with House(workplace, log_folder) as house:
            yield house

whole() puts right what the test before has left broken, so that one fault isn't reported twice.
"""

import contextlib
import os
import shutil
import uuid

import psycopg2

from checker import audit_checker
from support import servers
from support.client import Client
from support.node import Node, verify

# The lengths and counts that the issues name; without it, shorter ones.
LONG = os.environ.get("HOLDFAST_LONG", "") not in ("", "0")


class House:
    def __init__(self, workplace, log_folder, nodes=2, postgres=None, **settings):
        name = uuid.uuid4().hex[:8]
        self.postgres = servers.Postgres(workplace.path / f"postgres-{name}",
                                         {"shared_buffers": "64MB"} | (postgres or {}))
        self.redis = servers.Redis(workplace.path / f"redis-{name}")
        self._log_folder, self._count, self._settings = log_folder, nodes, settings
        self.nodes = []

    def __enter__(self):
        try:
            self.postgres.start()
            self.redis.start()
            # The first one makes the schema.
            self.nodes = [self.new_node() for _ in range(self._count)]
        except BaseException:
            self.close()
            raise
        return self

    def new_node(self, **settings):
        return Node(self._log_folder, self.postgres.url(), self.redis.url(), **(self._settings | settings)).start()

    def __exit__(self, *_):
        troubles = self.close()
        assert not troubles, "\n".join(troubles)

    def close(self):
        """What did not end as it should."""
        troubles = []
        for node in self.nodes:
            try:
                node.stop()
            except AssertionError as trouble:
                troubles.append(str(trouble))
        for server in (self.redis, self.postgres):
            if server.process is not None:
                server.stop()
            shutil.rmtree(server.folder, ignore_errors=True)
        return troubles

    def whole(self):
        """Everything runs; waits until each node grants holds."""
        for server in (self.postgres, self.redis):
            if server.process.poll() is not None:
                server.start()
            server.resume()
        for node in self.nodes:
            if not node.running:
                node.start()
            node.resume()
        return self

    def admin(self):
        """The administrator of an organization that no other test uses."""
        return Client(self.nodes[0], f"org-{uuid.uuid4().hex[:12]}", "admin-1", "admin")

    @contextlib.contextmanager
    def database(self):
        connection = psycopg2.connect(self.postgres.url())
        connection.autocommit = True
        try:
            yield connection
        finally:
            connection.close()

    def end_sessions(self):
        """Ends every session of the nodes, as an operator would; how many there were."""
        with self.database() as db, db.cursor() as cursor:
            cursor.execute("""
                SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()""")
            return cursor.fetchone()[0]

    def prove(self, org, event):
        """`verify` and the audit checker find nothing, once Postgres answers again."""
        with self.database() as db:
            violations = audit_checker.check_event(db, org, event)
        assert not violations, "\n".join(map(str, violations[:20]))
        verify(self.nodes[0], "--event", event)


def redis_is_used(node):
    """Whether the node's breaker is closed and its last use of Redis worked."""
    return node.metrics()['holdfast_pool_up{pool="redis"}'] == 1
