"""survive: what buyers see while Redis and Postgres die, hang, forget and come back, second by second.

One run of steady load; each fault begins after a while of quiet, as long as it takes the breaker to close again. The
ratio is the worst of them: the rate some seconds after a fault's end against the rate just before it. The other half
of the truth is the picture: build/bench/survive.png.
"""

import pathlib
import statistics
import threading
import time
import urllib.error

import common
from support.node import verify

HERE = pathlib.Path(__file__).resolve().parent
STEP_S = 0.5
QUIET_S = 8
RECOVERY_S = 5     # from a fault's end to where the rate must be back
BREAKER_S = 15     # the same for a fault that opened the breaker
MEASURED_S = 4     # how long it is measured there
SPARE_S = 25       # what killing and starting servers takes in all
CONNECTIONS = 128


class Fault:
    def __init__(self, name, begin, end=None, lasts_s=0, recovery_s=RECOVERY_S):
        self.name, self.begin, self.end, self.lasts_s, self.recovery_s = name, begin, end or (lambda: None), lasts_s, recovery_s

    @property
    def total_s(self):
        return QUIET_S + self.lasts_s + self.recovery_s + MEASURED_S


def faults_of(postgres, redis, url):
    terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'holdfast%'"
    return [
        Fault("Redis hangs", redis.pause, redis.resume, 10, BREAKER_S),
        Fault("Redis dies, comes back empty", redis.kill, redis.start, 3, BREAKER_S),
        Fault("FLUSHALL", lambda: flush(redis)),
        Fault("every backend is terminated", lambda: common.execute(url, terminate)),
        Fault("Postgres dies, recovers", postgres.crash, postgres.start, 5),
    ]


def flush(redis):
    import redis as redis_module
    redis_module.Redis.from_url(redis.url()).flushall()


class Timeline:
    """What the node has counted, sampled all the time: (seconds since the start, holds so far, refused as failed so far)."""

    def __init__(self, node):
        self.node, self.samples, self.start = node, [], time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self):
        while not self._stop.wait(STEP_S):
            try:
                metrics = self.node.metrics()
            except (OSError, urllib.error.URLError):
                continue
            self.samples.append((self.now(), metrics['holdfast_holds_total{outcome="created"}'],
                                 metrics['holdfast_holds_total{outcome="failed"}']))

    def now(self):
        return time.monotonic() - self.start

    def stop(self):
        self._stop.set()
        self._thread.join()

    def rates(self, column):
        """(middle of a step, how many a second in it)."""
        pairs = zip(self.samples, self.samples[1:])
        return [((a[0] + b[0]) / 2, (b[column] - a[column]) / (b[0] - a[0])) for a, b in pairs]

    def rate(self, begin, end):
        inside = [rate for at, rate in self.rates(1) if begin <= at <= end]
        if not inside:
            raise common.BenchError(f"nothing was sampled from {begin:.0f} to {end:.0f} s")
        return statistics.median(inside)


def run(context):
    url = context.fresh_house()
    node = context.node(url)
    node.start()
    faults = faults_of(context.postgres, context.redis, url)
    seconds = int(sum(fault.total_s for fault in faults)) + SPARE_S
    spans = []
    load = threading.Thread(target=drive, args=(context, node, seconds), daemon=True)
    try:
        timeline = Timeline(node)
        load.start()
        for fault in faults:
            spans.append(suffer(fault, timeline))
        timeline.stop()
        load.join()
        verify(node)
    finally:
        node.stop()
    context.drop_house(url)
    return report(timeline, spans)


def drive(context, node, seconds):
    # Answers 503 are what this is about: they are no error of the run.
    common.wrk(node.url, HERE.parent / "holds" / "hold.lua", seconds, context.token_file(), common.EVENTS,
               common.SEATS_PER_EVENT, 7, connections=CONNECTIONS)


def suffer(fault, timeline):
    time.sleep(QUIET_S)
    began = timeline.now()
    before = timeline.rate(began - 4, began)
    fault.begin()
    time.sleep(fault.lasts_s)
    fault.end()
    ended = timeline.now()
    time.sleep(fault.recovery_s + MEASURED_S)
    after = timeline.rate(ended + fault.recovery_s, ended + fault.recovery_s + MEASURED_S)
    during = timeline.rate(began, ended) if fault.lasts_s > 1 else None
    common.say(f"  {fault.name}: {before:,.0f} holds/s before, "
               + (f"{during:,.0f} during, " if during is not None else "") + f"{after:,.0f} after")
    return {"name": fault.name, "began": began, "ended": ended, "before": before, "during": during, "after": after}


def report(timeline, spans):
    worst = min(spans, key=lambda span: span["after"] / span["before"])
    result = common.result(
        "survive", f"Holds while things die; worst recovery: {worst['name']}", "holds/s",
        ("after the fault", [worst["after"]]), [("before it", [worst["before"]])],
        {"connections": CONNECTIONS, "spans": spans, "holds": timeline.rates(1), "failed": timeline.rates(2)})
    return result


def plot(result, path):
    """Holds and 503s over time, with the faults as bands."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(12, 4.5), layout="constrained")
    notes = result["notes"]
    top = 1.25 * max(rate for _, rate in notes["holds"])
    for number, span in enumerate(notes["spans"]):
        axes.axvspan(span["began"], max(span["ended"], span["began"] + 0.3), color="#e8c2b0", lw=0)
        axes.annotate(span["name"], (span["began"], top), xytext=(2, -12 - 12 * (number % 2)), textcoords="offset points",
                      fontsize=8, color="#7a3b1d")
    axes.plot(*zip(*notes["holds"]), color="#1b6ca8", lw=1.5, label="holds a second (201)")
    axes.plot(*zip(*[(at, min(rate, top)) for at, rate in notes["failed"]]), color="#c2452d", lw=1, ls=":",
              label="503 a second (cut off at the top)")
    axes.set_ylim(0, top)
    axes.set_xlim(0, notes["holds"][-1][0])
    axes.set_xlabel("seconds")
    axes.set_title("What buyers see while things die", fontsize=10)
    axes.legend(loc="lower left", fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
