"""The balancers of conf/ before given nodes, as an operator would run them. To a Client each looks like a node.

    balancer = HAProxy(folder, ["127.0.0.1:20001", "127.0.0.1:20002", "127.0.0.1:20003"])
    balancer.start()
    Client(balancer, org, "user-1").get("/ready")
"""

import csv
import grp
import os
import pwd
import re
import shutil
import socket
import urllib.request

from support import servers
from support.node import SECRET

CONF = servers.CLONE / "conf"


class Balancer(servers.Server):
    """conf_name: the file of conf/ that is run, with the addresses filled in."""

    conf_name = None

    def __init__(self, folder, nodes, secret=SECRET, listen=None):
        """nodes: addresses; secret: what clients' tokens are signed with; listen: where, if not on a free port."""
        super().__init__(folder)
        self.nodes, self.secret, self.node_id = nodes, secret, self.name
        self.host, _, port = (listen or "127.0.0.1:").rpartition(":")
        self.port = int(port) if port else None

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def prepare(self):
        self.folder.mkdir(exist_ok=True)
        servers.hand_to_server_user(self.folder)

    def answers(self):
        try:
            socket.create_connection((self.host, self.port), 2).close()
            return True
        except OSError:
            return False


class HAProxy(Balancer):
    name = "haproxy"
    conf_name = "haproxy.cfg"
    nodes_in_conf = 3

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.stats_port = None

    def _spawn(self):
        self.stats_port = servers.free_port()
        super()._spawn()

    def command(self):
        return [program("haproxy"), "-db", "-f", CONF / self.conf_name]

    def environment(self):
        """The file has three nodes: fewer are named again, and the balancer asks them so much the more often."""
        account = servers.server_user() or pwd.getpwuid(os.geteuid())
        addresses = [self.nodes[n % len(self.nodes)] for n in range(self.nodes_in_conf)]
        return os.environ | {
            "HOLDFAST_BALANCER": f"{self.host}:{self.port}",
            "HOLDFAST_BALANCER_STATS": f"127.0.0.1:{self.stats_port}",
            "HOLDFAST_BALANCER_USER": account.pw_name,
            "HOLDFAST_BALANCER_GROUP": grp.getgrgid(account.pw_gid).gr_name,
        } | {f"HOLDFAST_NODE_{n}": address for n, address in enumerate(addresses, 1)}

    def up(self):
        """The addresses of the nodes whose checks say that they may be asked."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.stats_port}/;csv", timeout=5) as page:
            rows = list(csv.DictReader(page.read().decode().removeprefix("# ").splitlines()))
        status = {row["svname"]: row["status"] for row in rows if row["pxname"] == "nodes"}
        # "UP 1/2": a check has failed, and one more would take it out.
        return {address for n, address in enumerate(self.nodes, 1) if status[f"node-{n}"].startswith("UP")}


class Nginx(Balancer):
    """nginx takes no variables: the addresses are put in the place of those that stand in the file."""

    name = "nginx"
    conf_name = "nginx.conf"

    def up(self):
        """The addresses of all nodes: nginx finds out with each request whom it may ask."""
        return set(self.nodes)

    def command(self):
        (self.folder / "holdfast.conf").write_text(self.filled_in())
        main = self.folder / "nginx.conf"
        main.write_text(NGINX_MAIN)
        return [program("nginx"), "-p", f"{self.folder}/", "-c", main]

    def filled_in(self):
        text = (CONF / self.conf_name).read_text()
        text, found = re.subn(r"(?m)^    listen \S+;", f"    listen {self.host}:{self.port};", text)
        assert found == 1, f"{self.conf_name} listens {found} times"
        line = re.search(r"^ *server 127\.0\.0\.1:8081(.*;)\n(?: *server .*\n)+", text, re.MULTILINE)
        assert line, f"{self.conf_name} has no list of nodes"
        nodes = "".join(f"    server {address}{line.group(1)}\n" for address in self.nodes)
        return text[:line.start()] + nodes + text[line.end():]


# What Debian's nginx.conf has around it, without root and in a folder of ours.
NGINX_MAIN = """
daemon off;
pid nginx.pid;
error_log stderr warn;
worker_processes 2;
worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include holdfast.conf;
}
"""


def program(name):
    return shutil.which(name) or f"/usr/sbin/{name}"
