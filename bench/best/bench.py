"""best: holds of the best seats per second, against holds of as many seats that the client names.

Parties of one to four sell one house after the other, each to 95 %, on fresh copies of the same database. Both sides
are holdfast: what is measured is what it costs that the server chooses.
"""

import pathlib

import common
from support.node import verify

HERE = pathlib.Path(__file__).resolve().parent


def run(context):
    ours, plain, latencies = [], [], []
    for _ in range(context.runs):
        plain.append(run_holdfast(context, "plain")[0])
        common.say(f"  seats named: {plain[-1]:,.0f} holds/s")
        rate, load = run_holdfast(context, "best")
        ours.append(rate)
        latencies.append(load)
        common.say(f"  best seats: {rate:,.0f} holds/s, p50 {load['p50_ms']:.1f} ms, p99 {load['p99_ms']:.1f} ms")
    return common.result(
        "best", f"Holds of 1 to 4 seats in houses of {common.SEATS_PER_EVENT:,}: the best ones, and named ones",
        "holds/s", ("best seats", ours), [("seats named", plain)],
        {"connections": common.CONNECTIONS, "users": common.USERS, "seconds": context.duration_s,
         "latency": latencies})


def run_holdfast(context, how):
    url = context.fresh_house()
    tokens = context.token_file()
    node = context.node(url)
    node.start()
    try:
        load = common.wrk(node.url, HERE / "best.lua", context.duration_s, tokens, common.EVENTS,
                          common.SEATS_PER_EVENT, 0, how)
        check_load(load, node)
        held, = common.execute(url, "SELECT count(DISTINCT hold_id), count(*) FROM seat_holds")
        if held[0] < 0.99 * load["requests"]:
            raise common.BenchError(f"{load['requests']} answers, but {held[0]} holds")
        if held[1] >= 0.95 * common.SEATS:
            raise common.BenchError("all houses were sold before the time was over: use a shorter DURATION")
        apart = common.execute(url, APART)[0][0]
        if how == "best" and apart:
            raise common.BenchError(f"{apart} parties don't sit side by side")
        verify(node)
    finally:
        node.stop()
    context.drop_house(url)
    return min(held[0], load["requests"]) / load["seconds"], load


# Parties that are not in one row without a break; who names seats here doesn't look at rows.
APART = """
SELECT count(*) FROM (
    SELECT 1 FROM seat_holds h JOIN seats s USING (org_id, event_id, seat_id)
    GROUP BY h.hold_id
    HAVING max(s.number::int) - min(s.number::int) + 1 <> count(*) OR count(DISTINCT (s.section, s."row")) > 1) x
"""


def check_load(load, node):
    if load["not_2xx"] or load["socket_errors"]:
        raise common.BenchError(f"{load['not_2xx']} refused, socket errors: {load['socket_errors']}\n{node.log_tail()}")
