"""What `make cluster` does once everything is built: servers, three nodes behind HAProxy and the demo, until Ctrl-C.

HOLDFAST_LISTEN is the balancer's address; other settings are every node's. A node that ends is started again, so that
restarts and crashes can be tried: the words at the start say how. Data stay between runs (build/servers/cluster).
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import run_demo, servers, supervise  # noqa: E402
from support.balancer import HAProxy  # noqa: E402

NODES = 3
LOOK_AGAIN_S = 0.5
# A node that can't start says why; not too often.
START_AGAIN_S = 3


class Member:
    """A node of the cluster: a process at an address that stays."""

    def __init__(self, place, environment, number):
        self.name, self.address = f"node-{number}", f"127.0.0.1:{servers.free_port()}"
        self._folder = place.folder("nodes")
        self._environment = environment | {
            "HOLDFAST_LISTEN": self.address, "HOLDFAST_NODE_ID": self.name, "HOLDFAST_TRUSTED_PROXIES": "127.0.0.1"}
        self.process, self._started = None, 0.0

    def start(self):
        self._started = time.monotonic()
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig=TERM", "--", run_demo.BINARY, "serve"], cwd=self._folder, env=self._environment,
            stdout=subprocess.DEVNULL, start_new_session=True)

    def start_again_if_it_ended(self):
        status = self.process.poll()
        if status is not None and time.monotonic() > self._started + START_AGAIN_S:
            print(f"{self.name} has ended with {status}; starting it again", flush=True)
            self.start()

    def tell_to_end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def end(self):
        supervise.end(self.process, signal.SIGTERM, 25)


def main():
    supervise.end_on_signals()
    listen = os.environ.get("HOLDFAST_LISTEN", "127.0.0.1:8080")
    try:
        run_demo.assert_free(listen)
        with servers.Workplace("cluster") as place:
            environment = run_demo.demo_environment(place, listen)
            run_demo.holdfast(environment, place, "migrate")
            with running_cluster(place, environment, listen) as (members, balancer):
                run_demo.load_demo(environment, place, listen)
                say_how_to_use(environment, listen, members, balancer)
                serve_until_told_to_end(members)
    except servers.ServerError as error:
        sys.exit(f"make cluster: {error}")


@contextlib.contextmanager
def running_cluster(place, environment, listen):
    members = [Member(place, environment, number) for number in range(1, NODES + 1)]
    balancer = HAProxy(place.path / "haproxy", [member.address for member in members], listen=listen)
    with contextlib.ExitStack() as stack:
        for member in members:
            member.start()
            stack.callback(member.end)
        # All at once: they drain side by side.
        stack.callback(lambda: [member.tell_to_end() for member in members])
        stack.callback(balancer.stop)
        balancer.start()
        await_all(members, balancer)
        yield members, balancer


def await_all(members, balancer):
    while len(balancer.up()) < NODES:
        for member in members:
            if member.process.poll() is not None:
                raise servers.ServerError(f"{member.name} ended with {member.process.poll()}; its words are above")
        time.sleep(0.1)


def say_how_to_use(environment, listen, members, balancer):
    run_demo.say_how_to_use(environment, listen)
    for member in members:
        print(f"{member.name}:        http://{member.address}  (kill {member.process.pid}: it drains, and is started again)")
    print(f"HAProxy:       http://127.0.0.1:{balancer.stats_port}  (its page; X-Holdfast-Node says who gave an answer)\n",
          flush=True)


def serve_until_told_to_end(members):
    with contextlib.suppress(SystemExit):
        while True:
            time.sleep(LOOK_AGAIN_S)
            for member in members:
                member.start_again_if_it_ended()


if __name__ == "__main__":
    main()
