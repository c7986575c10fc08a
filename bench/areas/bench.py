"""areas: places of one area held per second, all on one counter, against as many holds of distinct seats.

The same request either way, each answered 201 after its commit; what counts are rows in seat_holds. Each run begins
with a fresh copy of the same database, and the two take turns.
"""

import pathlib

import common
from support.node import verify

HERE = pathlib.Path(__file__).resolve().parent
AREA = f"""
INSERT INTO areas (org_id, event_id, area_id, name, capacity, price)
VALUES ('{common.ORG}', '0', 'floor', 'Floor', 2000000000, 5000)
"""


def run(context):
    rates, loads = {"area": [], "seat": []}, {"area": [], "seat": []}
    for number in range(context.runs):
        for what in ("seat", "area"):
            rate, load = run_holdfast(context, what, number)
            rates[what].append(rate)
            loads[what].append(load)
            common.say(f"  {what}: {rate:,.0f} holds/s, p50 {load['p50_ms']:.1f} ms, p99 {load['p99_ms']:.1f} ms")
    return common.result("areas", "Holds of one area's places, against holds of distinct seats", "holds/s",
                         ("one area", rates["area"]), [("distinct seats", rates["seat"])],
                         {"connections": common.CONNECTIONS, "seconds": context.duration_s, "latency": loads["area"]})


def run_holdfast(context, what, number):
    url = context.fresh_house()
    common.execute(url, AREA)
    node = context.node(url)
    node.start()
    try:
        load = common.wrk(node.url, HERE / "hold.lua", context.duration_s, context.token_file(), what, common.EVENTS,
                          common.SEATS_PER_EVENT, 1 + number)
        if load["not_2xx"] or load["socket_errors"]:
            raise common.BenchError(f"{load['not_2xx']} refused, socket errors: {load['socket_errors']}\n{node.log_tail()}")
        # In one look: what was under way when wrk stopped is still being committed.
        [[held, counted]] = common.execute(url, "SELECT (SELECT count(*) FROM seat_holds WHERE status = 'active'), "
                                           "(SELECT held FROM areas)")
        if what == "area" and counted != held:
            raise common.BenchError(f"{held} lines, but the area counts {counted}")
        if held < 0.99 * load["requests"]:
            raise common.BenchError(f"{load['requests']} answers, but {held} holds")
        verify(node)
    finally:
        node.stop()
    context.drop_house(url)
    # Requests in flight when wrk stopped are committed too; they are not counted.
    return min(held, load["requests"]) / load["seconds"], load
