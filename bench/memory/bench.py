"""memory: bytes of a hold in the hot table of a node, against the same hold as a key in Redis (the warm tier).

The ratio is Redis' bytes per hold to ours. The hot table is measured by its own program, hot_memory.
"""

import json
import re
import uuid

import redis

import common

HOLDS = 200_000
BATCH = 10_000


def run(context):
    ours = [hot_bytes() for _ in range(context.runs)]
    common.say(f"bytes_per_seat {ours[-1]:.0f}")
    peer = [redis_bytes(context) for _ in range(context.runs)]
    common.say(f"  Redis: {peer[-1]:.0f} bytes a hold")
    outcome = common.result("memory", "Memory of a held seat (less is better)", "bytes", ("hot table", ours),
                            [("Redis, a key per seat", peer)], {"redis_holds": HOLDS})
    return outcome | {"ratio": 1 / outcome["ratio"]}


def hot_bytes():
    program = common.servers.BUILD / "bench" / "hot_memory"
    if not program.exists():
        raise common.BenchError("build/bench/hot_memory is missing: `make build` makes it")
    text = common.run([program], 300)
    return float(re.search(r"bytes_per_seat[ =:]+([\d.]+)", text).group(1))


def redis_bytes(context):
    connection = redis.Redis.from_url(context.redis.url())
    connection.flushall()
    before = connection.info("memory")["used_memory"]
    for start in range(0, HOLDS, BATCH):
        pipeline = connection.pipeline(transaction=False)
        for seat in range(start, start + BATCH):
            pipeline.set(f"holdfast:{{org:{common.ORG}:event:{seat % common.EVENTS}}}:seat:{seat}", detail(), px=900_000)
        pipeline.execute()
    used = connection.info("memory")["used_memory"] - before
    connection.flushall()
    connection.close()
    return used / HOLDS


def detail():
    """The value that the warm tier keeps for a held seat."""
    return json.dumps({"hold_id": str(uuid.uuid4()), "user_id": "user-1234", "cart_token": "bench",
                       "expires_at": 1893499200000, "held_at": 1893498300000, "version": 1}, separators=(",", ":"))
