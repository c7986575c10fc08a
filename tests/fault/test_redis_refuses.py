"""Redis is there and says no: each of its errors costs nothing but itself, and when it is well it is used again."""

import time

import pytest
import redis as redis_module

from support.client import Client
from support.fake_redis import FakeRedis
from support.swarm import drive, hold_shot, shot
from support.waiting import wait_until

SEATS, USERS = 100, 20
REPLIES = {
    "LOADING": b"-LOADING Redis is loading the dataset in memory\r\n",
    "MISCONF": b"-MISCONF Redis is configured to save RDB snapshots, but it's unable to persist to disk.\r\n",
    "OOM": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "READONLY": b"-READONLY You can't write against a read only replica.\r\n",
    "NOAUTH": b"-NOAUTH Authentication required.\r\n",
    "MASTERDOWN": b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
    "CLUSTERDOWN": b"-CLUSTERDOWN Hash slot not served\r\n",
    "MOVED": b"-MOVED 3999 127.0.0.1:6381\r\n",
    "BUSY": b"-BUSY Redis is busy running a script.\r\n",
    "an error of its own": b"-ERR something is wrong\r\n",
    "nil": b"$-1\r\n",
    "an array of a million": b"*1000000\r\n",
    "no Redis at all": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


def buy_and_change(node, admin, event, told, seats=SEATS):
    """Everything that can be done to a hold is done; each answer is known beforehand."""
    def buyer(number):
        user, rival = Client(node, admin.org, f"buyer-{number}"), Client(node, admin.org, "rival")
        for n in range(number, seats, USERS):
            seat = f"A-{n + 1}"
            answer = yield hold_shot(user, event, seat, cart=seat)
            hold = answer.expect(201).json
            told.append(hold)
            path = f"/api/holds/{hold['hold_id']}"
            answer = yield hold_shot(rival, event, seat)
            answer.expect(409, "seat_taken")
            answer = yield shot(user, "GET", f"/api/events/{event}/seats/{seat}")
            assert (answer.json["status"], answer.json["mine"]) == ("held", True), answer
            answer = yield shot(user, "POST", f"{path}/extend", {})
            answer.expect(200)
            answer = yield shot(user, *[("DELETE", path), ("POST", f"{path}/confirm", {})][n % 2])
            answer.expect(200)
            answer = yield shot(rival, "GET", f"/api/events/{event}/seats/{seat}")
            assert answer.expect(200).json["status"] == ["available", "sold"][n % 2], answer

    began = time.monotonic()
    drive([buyer(number) for number in range(USERS)])
    return time.monotonic() - began


@pytest.mark.parametrize("name", REPLIES)
def test_whatever_redis_replies_holds_go_on(start_node, admin, name, prove):
    with FakeRedis(REPLIES[name]) as fake:
        node = start_node(redis_url=fake.url)
        of_before = len(node.log_lines())  # it has its name, and so its log, from a node of a former run, perhaps
        event, told = admin.make_event(SEATS), []
        took = buy_and_change(node, admin, event, told)
        assert fake.commands > 0, "nobody asked it"
        assert took < 15
        # A reply a request would be a flood; a change of the breaker is a line.
        assert len(node.log_lines()) - of_before < 50, node.log_tail()
    prove(event, told)


# --- a real one that says no, and is cured ---------------------------------------------------------------------------

ILLNESSES = {
    "out of memory": (lambda redis: redis.config_set("maxmemory", "1"),
                      lambda redis: redis.config_set("maxmemory", "0")),
    "a replica": (lambda redis: redis.execute_command("REPLICAOF", "127.0.0.1", "1"),
                  lambda redis: redis.execute_command("REPLICAOF", "NO", "ONE")),
    "a password": (lambda redis: redis.config_set("requirepass", "secret"),
                   lambda redis: redis.config_set("requirepass", "")),
    "no more clients": (lambda redis: redis.config_set("maxclients", "1"),
                        lambda redis: redis.config_set("maxclients", "1000")),
}


@pytest.mark.parametrize("name", ILLNESSES)
def test_a_redis_that_falls_ill_and_is_cured_is_used_again(start_node, admin, own_redis, org, name, prove):
    node = start_node(redis_url=own_redis.url())
    fall_ill, cure = ILLNESSES[name]
    event, told = admin.make_event(2 * SEATS), []
    with redis_module.Redis.from_url(own_redis.url()) as redis:
        first = Client(node, org, "first").held(event, f"A-{2 * SEATS}")
        key = f"holdfast:{{org:{org}:event:{event}}}:seat:A-{2 * SEATS}"
        wait_until(lambda: redis.exists(key), what="it is used")
        fall_ill(redis)
        assert buy_and_change(node, admin, event, told) < 15
        cure(redis)
        spare = iter(range(SEATS + 1, 2 * SEATS))

        def is_used():
            seat = f"A-{next(spare)}"
            hold = Client(node, org, "later").held(event, seat, cart=seat)
            told.append(hold)
            return hold["hold_id"] in (redis.get(f"holdfast:{{org:{org}:event:{event}}}:seat:{seat}") or b"").decode()

        wait_until(is_used, timeout=15, every=0.2, what="it is used again")
    prove(event, [first, *told])
