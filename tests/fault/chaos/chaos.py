#!/usr/bin/python3
"""chaos.py [--seed S] [--duration SECONDS]: three nodes, two dozen buyers who also pay, and everything that can go wrong.

The seed decides which faults come when, and what each buyer wants in its n-th step; timing does the rest. When the
faults are over, nodes must be well by themselves, tiers equal, free seats sellable, and the history true
(checker/history_checker.py). Exit status 1 if anything is not. HOLDFAST_BINARY names another build.
"""

import argparse
import collections
import json
import pathlib
import random
import secrets
import shutil
import subprocess
import sys
import threading
import time
import traceback

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS))
from fault.chaos import aftermath, faults  # noqa: E402
from fault.chaos.arena import Arena  # noqa: E402
from fault.chaos.buyers import BUYERS, PATIENCE_S, PROVIDERS, Buyer, Market, Provider, Releaser  # noqa: E402
from fault.chaos.history import History  # noqa: E402
from support import servers, supervise  # noqa: E402
from support.swarm import drive  # noqa: E402

REQUEST_TIMEOUT_S = 5  # the default of config.def


class World:
    """What faults and checks get to see."""

    def __init__(self, arena, market, history):
        self.arena, self.market, self.history = arena, market, history
        self.began = time.monotonic()
        self.planted_events = set()  # where wrong values were put into Redis

    def say(self, text):
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def node(self, target):
        """A node that is to be broken: it must not have ended by itself before."""
        node = self.arena.nodes[target]
        if not node.running:
            self.history.finding("crash", f"{target} ended by itself with {node.process.poll()}:\n{node.log_tail()}")
        return node


def storm(world, seed, duration):
    """Buyers buy, faults happen; then the faults end, and buyers go on until the nodes are well."""
    planned = faults.plan(seed, duration)
    world.say(f"{len(planned)} faults in {duration:g} s")
    each_storm = faults.Storm(world, planned)

    def rage():
        try:
            each_storm.run(world.market.began)
            for name in world.arena.nodes:
                world.node(name)
            world.arena.mend()
            world.say("the last fault has ended")
            aftermath.await_health(world)
        except Exception:
            world.history.finding("trouble", traceback.format_exc())
        finally:
            world.market.close()

    world.market.open()
    raging = threading.Thread(target=rage)
    raging.start()
    try:
        actors = [*(Buyer(world.market, number) for number in range(BUYERS)),
                  *(Provider(world.market, number) for number in range(PROVIDERS)), Releaser(world.market)]
        drive([actor.steps() for actor in actors], timeout=duration + 300, patience=PATIENCE_S)
    finally:
        each_storm.stop()
        world.market.close()
        raging.join()


def run(seed, duration, results):
    with Arena(secret=secrets.token_hex(16)) as arena:
        history = History(results / "history.jsonl", org="org-chaos", seed=seed, duration=duration,
                          request_timeout_s=REQUEST_TIMEOUT_S)
        market = Market(seed, "org-chaos", arena.nodes.values(), history, duration + aftermath.HEAL_S)
        world = World(arena, market, history)
        try:
            market.make_events()
            aftermath.make_tail_event(market)
            storm(world, seed, duration)
            aftermath.await_payments(world)
            tail = aftermath.hold_the_tail(world)
            aftermath.check_tiers(world)
            aftermath.release_the_tail(world, tail)
            aftermath.check_sellable(world)
            aftermath.check_proofs(world)
            aftermath.check_ends(world)
        finally:
            history.close()
            keep_logs(arena, results)
        clean = check_history(arena, results)
        if not clean:
            keep_database(arena, results)
    summarize(results)
    return clean


def keep_logs(arena, results):
    for node in arena.nodes.values():
        shutil.copy(node.log_path, results)


def keep_database(arena, results):
    with open(results / "database.sql", "wb") as out:
        subprocess.run([servers.POSTGRES_BIN / "pg_dump", arena.database_url], stdout=out, check=False)


def check_history(arena, results):
    """A program of its own; what it says goes to the reader."""
    checked = subprocess.run(
        [sys.executable, "-B", TESTS / "checker" / "history_checker.py", results / "history.jsonl",
         "--database-url", arena.database_url], check=False)
    return checked.returncode == 0


def summarize(results):
    calls, happened = collections.Counter(), collections.Counter()
    with open(results / "history.jsonl", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if line["kind"] == "call":
                calls[line.get("code") or line.get("status") or "no answer"] += 1
            elif line["kind"] == "fault":
                happened[line["name"]] += 1
    print("calls:", ", ".join(f"{count} {what}" for what, count in calls.most_common()))
    print("faults:", ", ".join(f"{count} {what}" for what, count in sorted(happened.items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", default=None, help="default: a random one")
    parser.add_argument("--duration", type=float, default=60, help="seconds of faults (60)")
    arguments = parser.parse_args()
    seed = arguments.seed or str(random.SystemRandom().randrange(10**9))
    supervise.end_on_signals()
    results = servers.BUILD / "chaos" / f"seed-{seed}"
    results.mkdir(parents=True, exist_ok=True)
    print(f"chaos: seed {seed}, {arguments.duration:g} s; history and logs in {results.relative_to(servers.CLONE)}",
          flush=True)
    clean = run(seed, arguments.duration, results)
    print(f"chaos: seed {seed}: {'clean' if clean else 'VIOLATIONS'}", flush=True)
    sys.exit(0 if clean else 1)


if __name__ == "__main__":
    main()
