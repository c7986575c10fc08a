"""What the benchmarks share: a house of a million seats, load by wrk, and the numbers of a run."""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import uuid

import psycopg2

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))
from support import servers, supervise, tokens  # noqa: E402
from support.node import SECRET, Node  # noqa: E402

REPORT = servers.BUILD / "bench"
ORG = "bench"
EVENTS = 50
SEATS_PER_EVENT = 20_000
SEATS = EVENTS * SEATS_PER_EVENT
USERS = 4000
CONNECTIONS = 256

# Ids are plain numbers, so that pgbench's parameters are the ids and nobody has to build text.
HOUSE = f"""
CREATE EXTENSION pg_prewarm;
INSERT INTO events (org_id, event_id, kind, name, status, hold_ttl, extend_by, max_hold, max_seats_per_hold)
SELECT '{ORG}', e::text, 'event', 'Event ' || e, 'on_sale', 900, 300, 1200, 8 FROM generate_series(0, {EVENTS - 1}) e;
INSERT INTO seats (org_id, event_id, seat_id, section, "row", number, price)
SELECT '{ORG}', e::text, s::text, 'block-' || s / 1000, (s / 40 % 25)::text, (s % 40)::text, 5000
FROM generate_series(0, {EVENTS - 1}) e, generate_series(0, {SEATS_PER_EVENT - 1}) s;
"""


class BenchError(Exception):
    """A run that must not be counted; the text says why."""


class Context:
    """The servers of this run of benchmarks, and how long each measurement lasts."""

    def __init__(self, place, duration_s, runs):
        self.place = place
        self.duration_s = duration_s
        self.runs = runs
        self.folder = place.folder("nodes")
        self._postgres = None
        self._redis = None
        self._template = None

    @property
    def postgres(self):
        if self._postgres is None:
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            buffers_mb = min(2048, memory // 4 // 2**20)
            self._postgres = self.place.postgres(fresh=True, shared_buffers=f"{buffers_mb}MB", max_wal_size="8GB",
                                                 checkpoint_timeout="30min")
        return self._postgres

    @property
    def redis(self):
        if self._redis is None:
            self._redis = self.place.redis()
        return self._redis

    def fresh_house(self):
        """The URL of a database of a million free seats: a copy, everything on disk, the seats in memory."""
        if self._template is None:
            self._template = self._build_house()
        name = f"run_{uuid.uuid4().hex[:8]}"
        url = servers.make_database(self.postgres.url(), name, self._template)
        execute(url, "SELECT pg_prewarm('seats'), pg_prewarm('seats_pkey')")
        execute(url, "CHECKPOINT")
        return url

    def _build_house(self):
        say(f"building the house: {EVENTS} events of {SEATS_PER_EVENT} seats")
        url = servers.make_database(self.postgres.url(), "house")
        done = Node(self.folder, url).command("migrate")
        if done.returncode != 0:
            raise BenchError(f"holdfast migrate failed:\n{done.stderr}")
        execute(url, HOUSE)
        # Not seat_holds: statistics of an empty table make ruinous plans for everybody.
        execute(url, "VACUUM (ANALYZE) seats")
        return "house"

    def drop_house(self, url):
        execute(self.postgres.url(), f"DROP DATABASE {url.rsplit('/', 1)[1]} WITH (FORCE)")

    def node(self, url, **settings):
        return Node(self.folder, url, self.redis.url(), log_level="warn", **settings)

    def token_file(self):
        """The users' tokens, one a line, for wrk's scripts."""
        path = self.folder / "tokens.txt"
        path.write_text("".join(tokens.mint(SECRET, ORG, f"user-{n}", ttl=86400) + "\n" for n in range(USERS)))
        return path


def execute(url, statement):
    connection = psycopg2.connect(url)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else None
    finally:
        connection.close()


def wrk(url, script, duration_s, *arguments, connections=CONNECTIONS):
    """Runs wrk with one thread; what it says, as numbers."""
    command = ["wrk", "--threads", "1", "--connections", connections, "--duration", f"{duration_s}s", "--latency",
               "--timeout", "10s", "--script", script, url, "--", *arguments]
    text = run(command, duration_s + 60)
    requests, number, unit = re.search(r"(\d+) requests in ([\d.]+)([smh])", text).groups()
    seconds = float(number) * {"s": 1, "m": 60, "h": 3600}[unit]
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    errors = re.search(r"Socket errors: (.*)", text)
    return {"requests": int(requests), "seconds": seconds, "per_second": int(requests) / seconds,
            "not_2xx": int(refused.group(1)) if refused else 0, "socket_errors": errors.group(1) if errors else None,
            "p50_ms": latency_ms(text, "50%"), "p99_ms": latency_ms(text, "99%")}


def latency_ms(text, percentile):
    number, unit = re.search(rf"{percentile}\s+([\d.]+)(us|ms|s)\b", text).groups()
    return float(number) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit]


def run(command, timeout_s, **more):
    """Runs a command that must succeed; its output."""
    with supervise.child(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more) as process:
        try:
            text, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{command[0]} did not end within {timeout_s} s") from None
    if process.returncode != 0:
        raise BenchError(f"{command[0]} ended with {process.returncode}:\n{text[-3000:]}")
    return text


def result(name, title, unit, ours, peers, notes):
    """A benchmark's outcome. `ours`: (label, runs); `peers`: the same, the first is the one of the ratio."""
    series = [{"label": label, "runs": runs, "median": statistics.median(runs)} for label, runs in [ours, *peers]]
    return {"name": name, "title": title, "unit": unit, "series": series, "notes": notes,
            "ratio": series[0]["median"] / series[1]["median"]}


def say(text):
    print(text, flush=True)
