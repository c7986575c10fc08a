"""Everything that goes wrong in a chaos run: one table, and a schedule that the seed alone decides.

A fault has a target, which no other fault touches meanwhile; faults of different targets overlap. It is begun, lasts,
and is ended; what it does on the way it draws from a generator of its own.
"""

import collections
import concurrent.futures
import dataclasses
import random
import signal
import threading
import time
import traceback

from fault.chaos import planted
from fault.chaos.arena import FAKED_CLOCKS, NODES
from support.proxy import Proxy

# name, weight, target, how long it lasts (s), function: a generator that breaks, yields, and mends
Fault = collections.namedtuple("Fault", "name weight target lasts run")
TABLE = []

MEAN_GAP_S = 1.2  # between the beginnings of two faults
BREATH_S = 1.5  # a target is left alone for so long after a fault
DATABASE_BREATH_S = 6.0  # the one thing that nobody can do without


def fault(weight, target, least_s, most_s):
    def enter(function):
        TABLE.append(Fault(function.__name__, weight, target, (least_s, most_s), function))
        return function

    return enter


def node_of(target):
    """Targets are "node-1", "node-1's clock", "node-1>postgres", "postgres", ..."""
    return target.partition(">")[0].removesuffix("'s clock")


# --- nodes ---------------------------------------------------------------------------------------------------


@fault(8, "node", 0.1, 3.0)
def node_killed(world, target, _):
    node = world.node(target)
    node.kill()
    yield
    node.start_again()


@fault(8, "node", 0.5, 9.0)
def node_stopped(world, target, _):
    """Up to far past the end of the holds that it knows."""
    node = world.node(target)
    node.pause()
    yield
    node.resume()


@fault(4, "node", 0.1, 1.0)
def node_drained(world, target, _):
    node = world.node(target)
    node.stop(timeout=30)
    yield
    node.start_again()


@fault(4, "clock", 1.0, 2.0)
def clock_jumps(world, target, draw):
    """A jump has no end; what lasts is the time in which it takes effect."""
    node = world.arena.nodes[node_of(target)]
    if node.clocks is None:
        yield
        return
    forward = draw.choice([0.5, 3.0, 8.0, 40.0])
    wall = draw.choice([-3600.0, -5.0, 5.0, 3600.0])
    node.move_clock(wall if node.clocks == "wall" else node.ahead_s + forward)
    yield


# --- Redis ---------------------------------------------------------------------------------------------------


@fault(4, "redis", 0.2, 4.0)
def redis_killed(world, _, __):
    world.arena.redis.kill()
    yield
    world.arena.start_redis()


@fault(4, "redis", 0.3, 6.0)
def redis_stopped(world, _, __):
    world.arena.redis.pause()
    yield
    world.arena.redis.resume()


@fault(4, "redis", 0.0, 0.1)
def redis_flushed(world, _, __):
    with world.arena.redis_connection() as redis:
        redis.flushall()
    yield


@fault(8, "redis", 0.5, 2.0)
def redis_planted(world, _, draw):
    org, event, seats = world.market.on_sale(draw)
    world.planted_events.add(event)
    with world.arena.redis_connection() as redis:
        remembered = planted.remember(redis, org, event, seats)
        yield
        for _ in range(draw.randint(1, 12)):
            planted.plant(redis, draw, org, event, seats, remembered)


# --- Postgres ------------------------------------------------------------------------------------------------


@fault(3, "postgres", 0.1, 2.0)
def postgres_killed(world, _, __):
    world.arena.kill_postgres()
    yield
    world.arena.start_postgres()


@fault(2, "postgres", 0.1, 1.0)
def postgres_crashed(world, _, __):
    """An immediate shutdown: its sessions are told."""
    world.arena.postgres.crash()
    yield
    world.arena.start_postgres()


@fault(3, "postgres", 0.3, 5.0)
def postgres_stopped(world, _, __):
    world.arena.signal_postgres(signal.SIGSTOP)
    yield
    world.arena.signal_postgres(signal.SIGCONT)


@fault(4, "postgres", 0.0, 0.1)
def sessions_terminated(world, _, __):
    with world.arena.database() as db, db.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                       "WHERE datname = current_database() AND pid <> pg_backend_pid()")
    yield


# --- between a node and its stores ---------------------------------------------------------------------------


def through_proxy(weight, least_s, most_s, postgres=True, redis=True):
    """Enters `function(proxy, draw)` once for the way to Postgres and once for the way to Redis."""
    def enter(function):
        for wanted, store in ((postgres, "postgres"), (redis, "redis")):
            if wanted:
                def run(world, target, draw, store=store):
                    proxies = world.arena.postgres_proxies if store == "postgres" else world.arena.redis_proxies
                    yield from function(proxies[node_of(target)], draw)

                TABLE.append(Fault(f"{store}_{function.__name__}", weight, f"{store}-way", (least_s, most_s), run))
        return function

    return enter


@through_proxy(3, 0.5, 4.0)
def way_slow(proxy, draw):
    proxy.slow(draw.choice([0.005, 0.03, 0.08, 0.3]))
    yield
    proxy.slow(0)


@through_proxy(3, 0.0, 0.1)
def way_cut(proxy, _):
    proxy.cut()
    yield


@through_proxy(2, 0.2, 3.0)
def way_refused(proxy, _):
    proxy.refuse()
    yield
    proxy.allow()


@through_proxy(2, 0.3, 5.0)
def way_frozen(proxy, _):
    proxy.freeze()
    yield
    proxy.thaw()


@through_proxy(2, 0.3, 5.0)
def way_vanished(proxy, _):
    proxy.vanish()
    yield
    proxy.appear()


@through_proxy(10, 0.5, 3.0, redis=False)
def commit_lost(proxy, draw):
    """The next COMMIT meets one of the fates; what is kept or stalled comes through at the end of the fault."""
    proxy.at(b"COMMIT", draw.choice(Proxy.FATES))
    yield
    proxy.disarm()


@through_proxy(3, 0.3, 2.0, postgres=False)
def write_lost(proxy, draw):
    proxy.at(draw.choice([b"SET", b"ZADD", b"EVALSHA", b"PUBLISH"]), draw.choice(Proxy.FATES))
    yield
    proxy.disarm()


# --- the schedule --------------------------------------------------------------------------------------------

TARGETS = {
    "node": NODES, "clock": tuple(f"{node}'s clock" for node in FAKED_CLOCKS),
    "redis": ("redis",), "postgres": ("postgres",),
    "postgres-way": tuple(f"{node}>postgres" for node in NODES), "redis-way": tuple(f"{node}>redis" for node in NODES),
}


@dataclasses.dataclass
class Planned:
    at: float  # seconds after the beginning
    lasts: float
    fault: Fault
    target: str
    seed: str


def plan(seed, duration):
    """The faults of a run in order of time. Nothing but the seed and the duration decides them."""
    draw = random.Random(f"faults/{seed}")
    busy_until = collections.defaultdict(float)
    planned, at = [], 1.0
    while at < duration:
        each = draw.choices(TABLE, [entry.weight for entry in TABLE])[0]
        lasts = draw.uniform(*each.lasts)
        target = draw.choice(TARGETS[each.target])
        number = len(planned)
        if busy_until[target] <= at:
            planned.append(Planned(at, min(lasts, max(0.0, duration - at)), each, target, f"fault/{seed}/{number}"))
            busy_until[target] = at + lasts + (DATABASE_BREATH_S if target == "postgres" else BREATH_S)
        at += draw.expovariate(1 / MEAN_GAP_S)
    return planned


# --- the run -------------------------------------------------------------------------------------------------


class Storm:
    """Carries the plan out; each fault on a thread of its own."""

    def __init__(self, world, planned):
        self._world = world
        self._planned = planned
        self._locks = collections.defaultdict(threading.Lock)
        self._stopping = threading.Event()

    def run(self, began):
        """Returns when the last fault has ended."""
        with concurrent.futures.ThreadPoolExecutor(len(self._planned) or 1) as pool:
            for each in self._planned:
                if self._stopping.wait(max(0.0, began + each.at - time.monotonic())):
                    break
                pool.submit(self._carry_out, each)

    def stop(self):
        self._stopping.set()

    def _carry_out(self, each):
        lock = self._locks[each.target]
        if not lock.acquire(timeout=15):
            return  # the one before is still being mended
        begin, trouble = time.monotonic(), None
        try:
            steps = each.fault.run(self._world, each.target, random.Random(each.seed))
            next(steps)
            self._stopping.wait(each.lasts)
            next(steps, None)
        except Exception:
            trouble = traceback.format_exc()
        finally:
            lock.release()
            self._world.history.fault(each.fault.name, each.target, begin, time.monotonic(), trouble)
