"""holds: distinct seats held per second, each answered 201 after its commit, against pgbench on the same tables.

Each run begins with a fresh copy of the same database; peer and holdfast take turns, so that a slow minute of the
machine falls on both. What counts are rows in seat_holds, not answers; `holdfast verify` ends each of our runs.
"""

import pathlib
import re

import common
from support.node import verify

HERE = pathlib.Path(__file__).resolve().parent
CLIENTS = 32
POSTGRES_BIN = common.servers.POSTGRES_BIN


def run(context):
    ours, transactions, statements, latencies = [], [], [], []
    for number in range(context.runs):
        transactions.append(run_pgbench(context, "transaction.sql"))
        common.say(f"  pgbench, transaction: {transactions[-1]:,.0f} holds/s")
        rate, load = run_holdfast(context, number)
        ours.append(rate)
        latencies.append(load)
        common.say(f"  holdfast: {rate:,.0f} holds/s, p50 {load['p50_ms']:.1f} ms, p99 {load['p99_ms']:.1f} ms")
        statements.append(run_pgbench(context, "statement.sql"))
        common.say(f"  pgbench, one statement: {statements[-1]:,.0f} holds/s")
    return common.result(
        "holds", "Holds of distinct seats, seat + hold + audit row each, fsync on", "holds/s", ("holdfast", ours),
        [("pgbench, a transaction of statements", transactions), ("pgbench, one statement", statements)],
        {"seats": common.SEATS, "connections": common.CONNECTIONS, "pgbench_clients": CLIENTS,
         "seconds": context.duration_s, "latency": latencies})


def run_holdfast(context, number):
    url = context.fresh_house()
    tokens = context.token_file()
    node = context.node(url)
    node.start()
    try:
        load = common.wrk(node.url, HERE / "hold.lua", context.duration_s, tokens, common.EVENTS,
                          common.SEATS_PER_EVENT, 1 + number)
        check_load(load, node)
        held = common.execute(url, "SELECT count(*) FROM seat_holds")[0][0]
        if held < 0.99 * load["requests"]:
            raise common.BenchError(f"{load['requests']} answers, but {held} holds")
        verify(node)
    finally:
        node.stop()
    context.drop_house(url)
    # Requests in flight when wrk stopped are committed too; they are not counted.
    return min(held, load["requests"]) / load["seconds"], load


def check_load(load, node):
    if load["requests"] >= common.SEATS:
        raise common.BenchError("the house was sold out before the time was over: use a shorter DURATION")
    if load["not_2xx"] or load["socket_errors"]:
        raise common.BenchError(f"{load['not_2xx']} refused, socket errors: {load['socket_errors']}\n{node.log_tail()}")


def run_pgbench(context, script):
    url = context.fresh_house()
    text = common.run(
        [POSTGRES_BIN / "pgbench", "--no-vacuum", "--protocol=prepared", f"--client={CLIENTS}", "--jobs=1",
         f"--time={context.duration_s}", f"--file={HERE / script}", "--define=n=-1", f"--define=clients={CLIENTS}",
         f"--define=seats={common.SEATS}", f"--define=events={common.EVENTS}", url], context.duration_s + 60)
    done = int(re.search(r"number of transactions actually processed: (\d+)", text).group(1))
    held = common.execute(url, "SELECT count(*) FROM seat_holds")[0][0]
    if held != done:
        raise common.BenchError(f"pgbench: {done} transactions, but {held} holds:\n{text}")
    context.drop_house(url)
    return float(re.search(r"tps = ([\d.]+)", text).group(1))
