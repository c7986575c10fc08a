"""Nodes on ports that stay, and balancers before them.

    with Cluster(folder, log_folder, database_url, redis_url, balancers=[HAProxy, Nginx]) as cluster:
        haproxy, nginx = cluster.balancers
        client = Client(haproxy, org, "user-1")
        cluster.nodes[0].restart()
        cluster.await_up()
"""

import contextlib
import uuid

import psycopg2

from checker import audit_checker
from support import servers
from support.balancer import HAProxy
from support.node import Node, verify
from support.waiting import wait_until


class Cluster:
    def __init__(self, folder, log_folder, database_url, redis_url, balancers=(HAProxy,), nodes=3, **settings):
        """folder: where balancers put theirs. The nodes' settings are `settings`."""
        settings = {"trusted_proxies": "127.0.0.1"} | settings
        self.database_url = database_url
        self.nodes = [Node(log_folder, database_url, redis_url, listen=f"127.0.0.1:{servers.free_port()}", **settings)
                      for _ in range(nodes)]
        addresses = [node.settings["listen"] for node in self.nodes]
        self.balancers = [make(folder / f"balancer-{uuid.uuid4().hex[:8]}", addresses, self.nodes[0].secret)
                          for make in balancers]

    @property
    def balancer(self):
        """The first one, which is often the only one."""
        return self.balancers[0]

    def __enter__(self):
        try:
            for each in [*self.nodes, *self.balancers]:
                each.start()
            self.await_up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        troubles = self.close()
        assert not troubles, "\n".join(troubles)

    def close(self):
        """Stops all; what did not end as it should."""
        troubles = []
        for balancer in self.balancers:
            balancer.stop()
        for node in self.nodes:
            try:
                node.stop()
            except AssertionError as trouble:
                troubles.append(str(trouble))
        return troubles

    def whole(self):
        """Every node runs, and is asked."""
        for node in self.nodes:
            if not node.running:
                node.start()
            node.resume()
        self.await_up()
        return self

    def await_up(self, timeout=10):
        """Until each balancer sends requests to every node that runs."""
        wanted = {node.settings["listen"] for node in self.nodes if node.running}
        for balancer in self.balancers:
            wait_until(lambda: wanted <= balancer.up(), timeout=timeout,  # pylint: disable=cell-var-from-loop
                       what=f"{balancer.name} sends requests to {wanted}")

    @contextlib.contextmanager
    def database(self):
        connection = psycopg2.connect(self.database_url)
        connection.autocommit = True
        try:
            yield connection
        finally:
            connection.close()

    def prove(self, org, event):
        """`verify` and the audit checker find nothing."""
        with self.database() as db:
            violations = audit_checker.check_event(db, org, event)
        assert not violations, "\n".join(map(str, violations[:20]))
        verify(next(node for node in self.nodes if node.running), "--event", event)
