"""overload: holds granted per second when five times as many are asked for as can be served, against just enough.

What can't be served in time must be refused so cheaply that the others don't feel it. The load shares the machine with
the servers. So that neither its appetite nor its share of the processor is what is measured, the capacity is that of a
store that is far away: each transaction waits 10 ms for it, whatever the machine does meanwhile. Whoever is refused
comes again, much sooner than he was told, for another seat.
"""

import pathlib

import common
from support.node import verify

HOLDS = pathlib.Path(__file__).resolve().parent.parent / "holds" / "hold.lua"
SETTINGS = {"workers": 2, "batch_max": 8, "request_timeout": "2s"}
FAR_AWAY = """
CREATE FUNCTION far_away() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END';
CREATE TRIGGER far_away BEFORE INSERT ON batches FOR EACH ROW EXECUTE FUNCTION far_away();
"""
# Of the two seconds these may be spent waiting: the last fifth is kept, and a quarter more is reckoned than it takes.
WAIT_S = 2 * 0.8 / 1.25
TIMES = 5
PAUSE_S = 0.3  # of a client between two requests
CONNECTIONS_MOST = 9000


def run(context):
    tokens = context.token_file()
    calm, crowded, latencies, offered = [], [], [], []
    for number in range(context.runs):
        rate, _ = run_load(context, tokens, 1 + number, common.CONNECTIONS, 0)
        calm.append(rate)
        common.say(f"  as many as it can serve: {rate:,.0f} holds/s")
        # So many wait, and so many more are refused and come again after the pause.
        clients = min(CONNECTIONS_MOST, int(1.4 * rate * (WAIT_S + TIMES * PAUSE_S)))
        rate, load = run_load(context, tokens, 100 + number, clients, PAUSE_S)
        times = load["per_second"] / calm[-1]
        crowded.append(rate)
        latencies.append(load)
        offered.append(times)
        common.say(f"  {times:.1f} times that, {clients} clients: {rate:,.0f} holds/s, p99 {load['p99_ms']:,.0f} ms")
        if times < TIMES:
            raise common.BenchError(f"the load was only {times:.1f} times what can be served")
    return common.result(
        "overload", f"Holds granted under {TIMES} times the load that can be served", "holds/s",
        ("overload", crowded), [("as many as it can serve", calm)],
        {"seconds": context.duration_s, "settings": SETTINGS, "offered_times": offered, "latency": latencies})


def run_load(context, tokens, seed, clients, pause_s):
    """Holds per second that were granted, and what wrk saw."""
    url = context.fresh_house()
    common.execute(url, FAR_AWAY)
    node = context.node(url, **SETTINGS)
    node.start()
    try:
        load = common.wrk(node.url, HOLDS, context.duration_s, tokens, common.EVENTS, common.SEATS_PER_EVENT, seed,
                          int(1000 * pause_s), connections=clients)
        held = common.execute(url, "SELECT count(*) FROM seat_holds")[0][0]
        check_load(load, node, held)
        verify(node)
    finally:
        node.stop()
    context.drop_house(url)
    # Requests in flight when wrk stopped are committed too; they are not counted.
    return min(held, load["requests"] - load["not_2xx"]) / load["seconds"], load


def check_load(load, node, held):
    if load["requests"] >= common.SEATS:
        raise common.BenchError("the house was sold out before the time was over: use a shorter DURATION")
    if load["socket_errors"]:
        raise common.BenchError(f"socket errors: {load['socket_errors']}\n{node.log_tail()}")
    if held < 0.99 * (load["requests"] - load["not_2xx"]):
        raise common.BenchError(f"{load['requests'] - load['not_2xx']} were granted, but there are {held} holds")
    refused = node.metrics()["holdfast_overloaded_total"]
    if refused < 0.99 * load["not_2xx"]:
        raise common.BenchError(f"{load['not_2xx']} were refused, but only {refused:.0f} because of overload")
