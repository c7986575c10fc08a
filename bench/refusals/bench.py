"""refusals: "taken" per second for one seat that everybody wants, against nginx, which says 409 without a look.

Two cores are shared by wrk and the server, in both cases alike.
"""

import pathlib
import shutil
import socket

import common
from support.client import Client

HERE = pathlib.Path(__file__).resolve().parent
EVENT, SEAT = "0", "0"
PATH = f"/api/events/{EVENT}/seats/{SEAT}/hold"


class Nginx(common.servers.Server):
    """One worker that answers every request 409."""

    name = "nginx"

    def prepare(self):
        self.folder.mkdir(exist_ok=True)
        common.servers.hand_to_server_user(self.folder)

    def command(self):
        conf = self.folder / "nginx.conf"
        conf.write_text((HERE / "nginx.conf").read_text().replace("@PORT@", str(self.port)))
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        return [program, "-p", f"{self.folder}/", "-c", conf]

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 2).close()
            return True
        except OSError:
            return False


def run(context):
    tokens = context.token_file()
    url = context.fresh_house()
    node = context.node(url)
    nginx = Nginx(context.place.path / "nginx")
    ours, peer, latencies = [], [], []
    nginx.start()
    try:
        node.start()
        owner = Client(node, common.ORG, "the-owner")
        owner.hold_one(EVENT, SEAT).expect(201)
        for _ in range(context.runs):
            peer.append(run_wrk(context, f"http://127.0.0.1:{nginx.port}", tokens)["per_second"])
            common.say(f"  nginx: {peer[-1]:,.0f} refusals/s")
            before = refused_hot(node)
            load = run_wrk(context, node.url, tokens)
            check_from_memory(load, refused_hot(node) - before)
            ours.append(load["per_second"])
            latencies.append(load)
            common.say(f"  holdfast: {ours[-1]:,.0f} refusals/s, p50 {load['p50_ms']:.1f} ms, p99 {load['p99_ms']:.1f} ms")
        owner.seat(EVENT, SEAT).expect(200)
    finally:
        node.stop()
        nginx.stop()
    context.drop_house(url)
    return common.result(
        "refusals", "Refusals of one seat that somebody holds", "refusals/s", ("holdfast", ours),
        [("nginx, return 409", peer)],
        {"connections": common.CONNECTIONS, "users": common.USERS, "seconds": context.duration_s, "latency": latencies})


def run_wrk(context, url, tokens):
    load = common.wrk(url, HERE / "refuse.lua", context.duration_s, tokens, PATH)
    if load["not_2xx"] != load["requests"] or load["socket_errors"]:
        raise common.BenchError(f"{load['requests'] - load['not_2xx']} of {load['requests']} were not refused; "
                                f"socket errors: {load['socket_errors']}")
    return load


def refused_hot(node):
    return node.metrics()['holdfast_holds_refused_total{tier="hot"}']


def check_from_memory(load, refused):
    """Answers that wrk counted must be refusals from memory, not some other error."""
    if refused < 0.99 * load["requests"]:
        raise common.BenchError(f"{load['requests']} answers, but memory refused {refused:.0f}")
