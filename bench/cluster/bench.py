"""cluster: holds per second with one, two and three nodes on one Postgres and one Redis, all on the same cores.

A second node brings no second machine here, so it can only cost: messages to tell the other what was sold, messages
to hear. The workers that suit these cores are shared out among the nodes (three have one each). The ratio says what two
nodes keep of one node's rate. The load doesn't go through a balancer, which would take its share of the same cores:
each node has a wrk of its own, with its part of connections and seats.

Rates and CPU time are taken from the nodes' counters and from /proc between two moments in which every wrk is running.
"""

import os
import pathlib
import statistics
import threading
import time

import common
from support.node import verify
from support.waiting import wait_until

HERE = pathlib.Path(__file__).resolve().parent
NODES = (1, 2, 3)
CONNECTIONS = 258   # divides by each of them
WORKERS = 2         # of all nodes together: they suit the cores, and as many more only make the batches smaller
APART_S = 3         # one wrk may begin, and so end, so much later than another
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PARTS = ("Postgres", "Redis", "nodes", "load")
COUNTERS = {
    "holds": 'holdfast_holds_total{outcome="created"}',
    "batches": "holdfast_batches_total",
    "messages": 'holdfast_fanout_frames_total{way="published"}',
    "bytes": 'holdfast_fanout_bytes_total{way="published"}',
}


def run(context):
    samples = {nodes: [] for nodes in NODES}
    for number in range(context.runs):
        for nodes in NODES:
            samples[nodes].append(measure(context, nodes, number))
            common.say(f"  {in_words(nodes)}: {sentence(samples[nodes][-1])}")
    rates = {nodes: (in_words(nodes), [sample["rate"] for sample in samples[nodes]]) for nodes in NODES}
    return common.result(
        "cluster", "Holds with several nodes on the same cores", "holds/s", rates[2], [rates[1], rates[3]],
        {"connections": CONNECTIONS, "seconds": context.duration_s,
         "samples": {str(nodes): samples[nodes] for nodes in NODES}})


def in_words(nodes):
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def sentence(sample):
    shares = ", ".join(f"{part} {sample['share'][part]:.0%}" for part in PARTS)
    return (f"{sample['rate']:,.0f} holds/s, {sample['batch']:.0f} a batch; {sample['messages']:.3f} messages and "
            f"{sample['bytes']:.0f} bytes a hold; CPU {sample['cpu_us']:.0f} us a hold: {shares}")


# --- one measurement -----------------------------------------------------------------------------------------


def measure(context, count, number):
    url = context.fresh_house()
    nodes = [context.node(url, workers=max(1, WORKERS // count)) for _ in range(count)]
    try:
        for node in nodes:
            node.start()
        tokens = context.token_file()
        loads = [Load(context.duration_s, tokens, node, part, count, number) for part, node in enumerate(nodes)]
        sample = watch(context, nodes, loads)
        for load in loads:
            load.finish()
        verify(nodes[0])
    finally:
        for node in nodes:
            node.stop()
    context.drop_house(url)
    return sample


class Load(threading.Thread):
    """A wrk that holds its part of the house at one node."""

    def __init__(self, duration_s, tokens, node, part, parts, number):
        super().__init__(daemon=True)
        self.node, self.seats = node, common.SEATS // parts
        self._seconds = duration_s + 2 * APART_S
        self._arguments = [tokens, common.EVENTS, common.SEATS_PER_EVENT, 1 + number, 0, part, parts]
        self._connections = CONNECTIONS // parts
        self._outcome = self._failure = None
        self.start()

    def run(self):
        try:
            self._outcome = common.wrk(self.node.url, HERE.parent / "holds" / "hold.lua", self._seconds, *self._arguments,
                                       connections=self._connections)
        except common.BenchError as failure:
            self._failure = failure

    def finish(self):
        self.join()
        if self._failure:
            raise self._failure
        load = self._outcome
        if load["requests"] >= self.seats:
            raise common.BenchError("a node's part of the house was sold out: use a shorter DURATION")
        if load["not_2xx"] or load["socket_errors"]:
            raise common.BenchError(f"{load['not_2xx']} refused, socket errors: {load['socket_errors']}\n"
                                    f"{self.node.log_tail()}")


def watch(context, nodes, loads):
    """What all of them did in the same seconds."""
    wait_until(lambda: all(counted(node)["holds"] > 0 for node in nodes), timeout=60, what="each node grants holds")
    time.sleep(1)  # the first batches are the ones of connections that come all at once
    before, began = look(context, nodes), time.monotonic()
    time.sleep(context.duration_s)
    after, seconds = look(context, nodes), time.monotonic() - began
    if not all(load.is_alive() for load in loads):
        raise common.BenchError(f"a wrk ended early: they began more than {APART_S} s apart")
    return compare(before, after, seconds)


def look(context, nodes):
    """(what the nodes have counted, CPU seconds of each part so far)"""
    counts = [counted(node) for node in nodes]
    postgres = context.postgres.process.pid
    cpu = {"Postgres": cpu_s(postgres) + sum(map(cpu_s, children(postgres))),
           "Redis": cpu_s(context.redis.process.pid),
           "nodes": sum(cpu_s(node.process.pid) for node in nodes),
           "load": sum(map(cpu_s, children(os.getpid(), "wrk")))}
    return {name: sum(count[name] for count in counts) for name in COUNTERS}, cpu


def counted(node):
    metrics = node.metrics()
    return {name: metrics[counter] for name, counter in COUNTERS.items()}


def compare(before, after, seconds):
    (counts_before, cpu_before), (counts_after, cpu_after) = before, after
    did = {name: counts_after[name] - counts_before[name] for name in COUNTERS}
    used = {part: cpu_after[part] - cpu_before[part] for part in PARTS}
    total = sum(used.values())
    return {"rate": did["holds"] / seconds, "batch": did["holds"] / did["batches"],
            "messages": did["messages"] / did["holds"], "bytes": did["bytes"] / did["holds"],
            "cpu_us": 1e6 * total / did["holds"], "share": {part: used[part] / total for part in PARTS}}


def cpu_s(pid):
    """User and system time of a process, with those of its children that have ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS_PER_S


def children(pid, name=None):
    """The processes that this one has started, on any of its threads."""
    found = [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
             for child in (task / "children").read_text().split()]
    return [child for child in found if name is None or pathlib.Path(f"/proc/{child}/comm").read_text().strip() == name]


# --- picture -------------------------------------------------------------------------------------------------


def plot(result, path):
    """Left the rates, right where the CPU time of a hold goes."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker
    samples = [result["notes"]["samples"][str(nodes)] for nodes in NODES]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for index, runs in enumerate(samples):
        rates = [run["rate"] for run in runs]
        left.bar(index, statistics.median(rates), color="#1b6ca8", width=0.6)
        left.plot([index] * len(rates), rates, "o", color="#222222", markersize=5, markeredgecolor="white")
        left.annotate(f"{statistics.median(rates):,.0f}", (index, max(rates)), xytext=(0, 6), textcoords="offset points",
                      ha="center", fontsize=9)
    left.set_ylim(0, 1.15 * max(run["rate"] for runs in samples for run in runs))
    left.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    left.set_title(f"holds a second (2 nodes keep {result['ratio']:.0%} of 1)", fontsize=10)
    stack(right, samples)
    for axes in (left, right):
        axes.set_xticks(range(len(NODES)), [in_words(nodes) for nodes in NODES])
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def stack(axes, samples):
    bottoms = [0.0] * len(samples)
    for part, color in zip(PARTS, ("#1b6ca8", "#c2452d", "#e0a030", "#b0b7bf")):
        heights = [statistics.median(run["cpu_us"] * run["share"][part] for run in runs) for runs in samples]
        axes.bar(range(len(samples)), heights, bottom=bottoms, color=color, width=0.6, label=part)
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights)]
    axes.set_title("microseconds of CPU time for a hold", fontsize=10)
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
