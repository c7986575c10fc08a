"""The registry: whether memory, Redis and Postgres agree about an event, and making Redis agree."""

import datetime
import json
import random
import threading
import time
import uuid

import pytest
import redis as redis_module

from support.client import Client
from support.swarm import drive, hold_shot, shot
from support.waiting import one_of, wait_until
from support.warm_truth import differences, prefix

# What is damaged here is mended when it is asked for, not before: nor because a busy machine's Redis was slow once.
NODE_SETTINGS = {"repair_interval": "1h", "redis_timeout_ms": 2000}


def registry(admin, event):
    return admin.get(f"/api/admin/registry/{event}").expect(200).json


def reconcile(admin, event):
    return admin.post(f"/api/admin/registry/{event}/reconcile").expect(200).json


def assert_agreed(seen, held):
    assert (seen["status"], seen["consistent"]) == ("ok", True), seen
    assert (seen["hot_count"], seen["redis_count"], seen["db_count"]) == (held, held, held), seen


@pytest.fixture
def lived_in(client, other, event):
    """A-1 and A-2 in one hold, A-3 in another's; A-4 sold, A-5 given back, the rest never touched."""
    hold = client.held(event, "A-1", "A-2")
    other.held(event, "A-3")
    client.confirm(client.held(event, "A-4", cart="c2")["hold_id"]).expect(200)
    client.cancel(client.held(event, "A-5", cart="c3")["hold_id"]).expect(200)
    return hold


# --- looking -------------------------------------------------------------------------------------------------


def test_an_event_that_nobody_touched_agrees(admin, event):
    assert_agreed(registry(admin, event), 0)
    done = reconcile(admin, event)
    assert (done["restored"], done["removed"]) == (0, 0) and done["duration_ms"] >= 0


def test_it_agrees_after_every_kind_of_change(admin, client, other, event, org, db, redis, lived_in):
    assert_agreed(registry(admin, event), 3)
    hold = lived_in["hold_id"]
    client.extend(hold).expect(200)
    client.patch(f"/api/holds/{hold}", {"add_seat_ids": ["A-6", "A-7"], "remove_seat_ids": ["A-1"]}).expect(200)
    client.hold(event, "A-6", "A-8", cart="another").expect(200)
    client.post(f"/api/holds/{hold}/transfer", {"to_user_id": other.user}).expect(200)
    other.extend(hold).expect(200)
    client.hold(event, "A-9", cart='quotes " and \\ and é').expect(201)
    assert_agreed(registry(admin, event), 6)
    assert not differences(db, redis, org, event)
    assert reconcile(admin, event) | {"duration_ms": 0} == {
        "consistent": True, "restored": 0, "removed": 0, "duration_ms": 0}


def test_holds_without_seats_do_not_count(admin, client):
    event = admin.make_event(2, areas=[{"area_id": "floor", "name": "Floor", "capacity": 9}])
    client.hold(event, areas=[{"area_id": "floor", "quantity": 2}]).expect(201)
    client.hold(event, "A-1", areas=[{"area_id": "floor", "quantity": 2}], cart="c2").expect(201)
    assert_agreed(registry(admin, event), 1)


def test_it_tells_the_living_nodes(admin, node, event, start_node):
    second = start_node()
    nodes = {one["node_id"]: one for one in registry(admin, event)["nodes"]}
    assert nodes.keys() == {node.node_id, second.node_id}
    assert nodes[node.node_id]["self"] is True and nodes[second.node_id]["self"] is False
    for one in nodes.values():
        assert one["incarnation"] > 0 and one["address"] and 0 <= one["heartbeat_age_ms"] < 10_000
    assert nodes[second.node_id]["incarnation"] > nodes[node.node_id]["incarnation"]


def test_it_tells_how_the_other_nodes_are_heard(admin, node, event, start_node):
    second = start_node()

    def seen():
        return {one["node_id"]: one for one in registry(admin, event)["nodes"]}

    def told():
        return seen()[second.node_id]

    wait_until(lambda: told()["heard"])

    def is_heard(number):
        before = told()["number"]
        Client(second, admin.org, "user-9").held(event, f"A-{number}", cart=f"c{number}")
        wait_until(lambda: told()["number"] > before, timeout=1)

    one_of(5, is_heard)
    peer = told()
    assert peer["gaps"] == 0
    wait_until(lambda: 0 <= told()["lag_ms"] < 700)

    def readiness():
        ready = admin.get("/ready").expect(200).json
        return ready["trusted"], ready["peers_known"], ready["peers_heard"]

    wait_until(lambda: readiness() == (True, 1, 1))
    name = f'peer="{second.node_id}",incarnation="{peer["incarnation"]}"'
    wait_until(lambda: node.metrics()["holdfast_peer_heard{%s}" % name] == 1)

    def is_missed(_):
        second.pause()
        try:
            wait_until(lambda: not told()["heard"], timeout=2)
            wait_until(lambda: seen()[node.node_id]["trusted"] is False, timeout=1)  # as soon as it is judged
        finally:
            second.resume()
            wait_until(lambda: told()["heard"] and seen()[node.node_id]["trusted"], timeout=20)

    one_of(3, is_missed)


def test_memory_that_differs_is_stale(admin, client, event, org, db):
    hold = client.held(event, "A-1")["hold_id"]

    def move_end(by):
        db.cursor().execute("UPDATE seats SET held_until = held_until + %s WHERE hold_id = %s", (by, hold))
        reconcile(admin, event)

    move_end(datetime.timedelta(seconds=5))
    seen = registry(admin, event)
    assert (seen["status"], seen["consistent"]) == ("stale", False) and "memory" in seen["message"]
    move_end(datetime.timedelta(seconds=-5))
    assert_agreed(registry(admin, event), 1)


def test_who_may_ask(admin, client, event):
    for method, path in (("GET", f"/api/admin/registry/{event}"), ("POST", f"/api/admin/registry/{event}/reconcile")):
        for role in ("user", "agent", "service"):
            client.as_user(role=role).request(method, path).expect(403, "forbidden")
        stranger = type(admin)(admin.node, "another-org", "boss", "admin")
        stranger.request(method, path).expect(404, "event_not_found")
        admin.request(method, path.replace(event, "nowhere")).expect(404, "event_not_found")
        admin.request(method, path.replace(event, "no%20id")).expect(400, "invalid_id")


# --- damage --------------------------------------------------------------------------------------------------


def value_of(**fields):
    return json.dumps({"hold_id": str(uuid.uuid4()), "user_id": "nobody", "cart_token": "x",
                       "expires_at": "2035-01-01T00:00:00.000Z", "held_at": "2026-01-01T00:00:00.000Z",
                       "version": 7} | fields, separators=(",", ":"))


def changed(redis, key, **fields):
    redis.set(key, json.dumps(json.loads(redis.get(key)) | fields, separators=(",", ":")), keepttl=True)


def first_member(redis, key, seat="A-1"):
    return next(member for member in redis.zrange(key, 0, -1) if member.startswith(seat + ":"))


# name: (what happens to Redis, with p = the event's prefix and h = the hold on; restored, removed)
DAMAGE = {
    "a key lost": (lambda r, p, h: r.delete(f"{p}:seat:A-1"), 1, 0),
    "a member lost": (lambda r, p, h: r.zrem(f"{p}:seat_holds", first_member(r, f"{p}:seat_holds")), 1, 0),
    "all members lost": (lambda r, p, h: r.delete(f"{p}:seat_holds"), 3, 0),
    "a meta lost": (lambda r, p, h: r.delete(f"{p}:hold:{h}:meta"), 2, 0),
    "a meta without a field": (lambda r, p, h: r.hdel(f"{p}:hold:{h}:meta", "user_id"), 2, 0),
    "a meta of somebody else": (lambda r, p, h: r.hset(f"{p}:hold:{h}:meta", "user_id", "thief"), 2, 0),
    "a wrong owner": (lambda r, p, h: changed(r, f"{p}:seat:A-1", user_id="thief"), 1, 0),
    "another hold": (lambda r, p, h: r.set(f"{p}:seat:A-1", value_of(), px=600_000), 1, 0),
    "a wrong cart": (lambda r, p, h: changed(r, f"{p}:seat:A-1", cart_token="stolen"), 1, 0),
    "an end that isn't": (lambda r, p, h: changed(r, f"{p}:seat:A-1", expires_at="2035-01-01T00:00:00.000Z"), 1, 0),
    "an old version": (lambda r, p, h: changed(r, f"{p}:seat:A-1", version=0), 1, 0),
    "a version beyond all": (lambda r, p, h: changed(r, f"{p}:seat:A-1", version=2**52), 1, 0),
    "no JSON on a held seat": (lambda r, p, h: r.set(f"{p}:seat:A-1", "no json"), 1, 0),
    "an empty value on a held seat": (lambda r, p, h: r.set(f"{p}:seat:A-1", ""), 1, 0),
    "a key of another type on a held seat": (
        lambda r, p, h: (r.delete(f"{p}:seat:A-1"), r.rpush(f"{p}:seat:A-1", "x")), 1, 0),
    "a foreign key on a free seat": (lambda r, p, h: r.set(f"{p}:seat:A-6", value_of()), 0, 1),
    "a key on a seat that was given back": (lambda r, p, h: r.set(f"{p}:seat:A-5", value_of(hold_id=h)), 0, 1),
    "a key on a sold seat": (lambda r, p, h: r.set(f"{p}:seat:A-4", value_of()), 0, 1),
    "a key of another type on a free seat": (lambda r, p, h: r.hset(f"{p}:seat:A-6", "x", "y"), 0, 1),
    "a megabyte on a free seat": (lambda r, p, h: r.set(f"{p}:seat:A-6", "x" * 1_000_000), 0, 1),
    "no text on a free seat": (lambda r, p, h: r.set(f"{p}:seat:A-6", b"\xff\x00\xfe"), 0, 1),
    "an empty value on a free seat": (lambda r, p, h: r.set(f"{p}:seat:A-6", ""), 0, 1),
    "a key of a seat that never was": (lambda r, p, h: r.set(f"{p}:seat:Z-99", value_of()), 0, 1),
    "a key of a seat that can't be": (lambda r, p, h: r.set(f"{p}:seat:no id", value_of()), 0, 1),
    "a member of a hold that is over": (
        lambda r, p, h: r.zadd(f"{p}:seat_holds", {f"A-6:{uuid.uuid4()}:nobody": 1}), 0, 1),
    "a member of another user": (lambda r, p, h: r.zadd(f"{p}:seat_holds", {f"A-1:{h}:thief": 4e12}), 0, 1),
    "a member of another seat": (lambda r, p, h: r.zadd(f"{p}:seat_holds", {f"A-6:{h}:user-1": 4e12}), 0, 1),
    "a member that is nonsense": (lambda r, p, h: r.zadd(f"{p}:seat_holds", {"nonsense": 1, "": 2, "::": 3}), 0, 3),
    "a wrong score": (lambda r, p, h: r.zadd(f"{p}:seat_holds", {first_member(r, f"{p}:seat_holds"): 1}), 1, 0),
    "members of another type": (lambda r, p, h: (r.delete(f"{p}:seat_holds"), r.set(f"{p}:seat_holds", "x")), 3, 1),
    "a meta of another type": (
        lambda r, p, h: (r.delete(f"{p}:hold:{h}:meta"), r.set(f"{p}:hold:{h}:meta", "x")), 2, 0),
    "everything lost": (lambda r, p, h: r.delete(*r.keys(p.replace("[", "\\[") + "*")), 3, 0),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_stale_until_it_is_reconciled(admin, event, org, db, redis, lived_in, name):
    damage, restored, removed = DAMAGE[name]
    damage(redis, prefix(org, event), lived_in["hold_id"])
    done = reconcile(admin, event)
    assert (done["restored"], done["removed"]) == (restored, removed), done
    assert not differences(db, redis, org, event)
    assert_agreed(registry(admin, event), 3)
    done = reconcile(admin, event)
    assert (done["restored"], done["removed"]) == (0, 0), "once more changes nothing"
    damage(redis, prefix(org, event), lived_in["hold_id"])
    seen = registry(admin, event)
    assert (seen["status"], seen["consistent"], seen["db_count"]) == ("stale", False, 3), seen
    assert "Redis" in seen["message"]
    reconcile(admin, event)  # or the node's own repair, which a look that finds something wakes
    assert_agreed(registry(admin, event), 3)


def test_equal_counts_are_no_agreement(admin, event, org, redis, lived_in):
    """As many members as holds, but others."""
    key = prefix(org, event) + ":seat_holds"
    redis.zrem(key, first_member(redis, key))
    redis.zadd(key, {f"A-6:{uuid.uuid4()}:nobody": 1})
    seen = registry(admin, event)
    assert seen["redis_count"] == seen["db_count"] == 3 and seen["status"] == "stale"


def test_all_damage_at_once(admin, event, org, db, redis, lived_in):
    names = list(DAMAGE)
    for seed in range(5):
        chance = random.Random(seed)
        for name in chance.sample(names, 6):
            try:
                DAMAGE[name][0](redis, prefix(org, event), lived_in["hold_id"])
            except Exception:  # one damage may be in the other's way
                continue
        reconcile(admin, event)
        assert not differences(db, redis, org, event), seed
        assert_agreed(registry(admin, event), 3)


def test_another_event_is_left_alone(admin, client, event, org, redis, lived_in):
    second = admin.make_event(3)
    client.held(second, "A-1")
    planted = prefix(org, second) + ":seat:A-2"
    redis.set(planted, value_of())
    assert reconcile(admin, event)["removed"] == 0 and registry(admin, event)["status"] == "ok"
    assert redis.get(planted) is not None
    assert reconcile(admin, second)["removed"] == 1


def test_a_house_of_many_portions(admin, client, org, db, redis):
    event = admin.make_event(2300, policy={"max_seats_per_hold": 500})
    for first in range(1, 2001, 500):
        client.held(event, *[f"A-{n}" for n in range(first, first + 500)], cart=f"c-{first}")
    assert_agreed(registry(admin, event), 2000)
    redis.delete(*[key for n, key in enumerate(redis.scan_iter(prefix(org, event) + "*", count=1000)) if n % 3 == 0])
    redis.zadd(prefix(org, event) + ":seat_holds", {f"A-{n}:{uuid.uuid4()}:nobody": n for n in range(1, 5001)})
    redis.mset({f"{prefix(org, event)}:seat:A-{n}": value_of() for n in range(2001, 2301)})
    done = reconcile(admin, event)
    assert done["removed"] == 5300 and done["restored"] > 500
    assert not differences(db, redis, org, event)
    assert_agreed(registry(admin, event), 2000)


# --- stores that are away --------------------------------------------------------------------------------------


def test_without_redis_it_is_degraded(admin, client, event, start_node):
    node = start_node(redis_url="")
    client.at(node).held(event, "A-1")
    seen = registry(admin.at(node), event)
    assert (seen["status"], seen["consistent"], seen["redis_count"]) == ("degraded", False, None)
    assert (seen["db_count"], seen["hot_count"]) == (1, 1)
    answer = admin.at(node).post(f"/api/admin/registry/{event}/reconcile").expect(503, "store_unavailable")
    assert int(answer.headers["Retry-After"]) >= 1


def test_a_redis_that_hangs_is_degraded(admin, client, event, start_node, own_redis):
    node = start_node(redis_url=own_redis.url())
    client.at(node).held(event, "A-1")
    own_redis.pause()
    for _ in range(3):
        seen = registry(admin.at(node), event)
        assert (seen["status"], seen["redis_count"], seen["db_count"]) == ("degraded", None, 1)
        answer = admin.at(node).post(f"/api/admin/registry/{event}/reconcile").expect(503, "store_unavailable")
        assert int(answer.headers["Retry-After"]) >= 1
    own_redis.resume()
    wait_until(lambda: registry(admin.at(node), event)["status"] == "ok", timeout=15, every=0.2)


def test_without_postgres_it_can_not_tell(admin, event, start_node, database_url, proxied):
    proxy, url = proxied(database_url)
    node = start_node(database_url=url)
    registry(admin.at(node), event)
    proxy.refuse()
    for method, path in (("GET", ""), ("POST", "/reconcile")):
        answer = admin.at(node).request(method, f"/api/admin/registry/{event}{path}")
        answer.expect(503, "store_unavailable")
        assert int(answer.headers["Retry-After"]) >= 1
    proxy.allow()
    wait_until(lambda: admin.at(node).get(f"/api/admin/registry/{event}").status == 200, timeout=15, every=0.2)


# --- repair by itself --------------------------------------------------------------------------------------------


def agreeing(db, own_redis, org, event):
    """A connection to that Redis, and whether it is as Postgres."""
    connection = redis_module.Redis.from_url(own_redis.url(), decode_responses=True)

    def agrees():
        return not differences(db, connection, org, event)
    return connection, agrees


@pytest.fixture
def own_node(start_node, own_redis):
    return start_node(redis_url=own_redis.url(), repair_interval="1h")


def test_a_wiped_redis_is_rebuilt_within_seconds(admin, client, other, event, org, db, own_node, own_redis):
    connection, agrees = agreeing(db, own_redis, org, event)
    client.at(own_node).held(event, "A-1", "A-2")
    other.at(own_node).held(event, "A-3")
    wait_until(agrees, timeout=20)
    for _ in range(3):
        def is_rebuilt(_):
            connection.flushall()
            wait_until(agrees, timeout=5)
            wait_until(lambda: registry(admin.at(own_node), event)["status"] == "ok", timeout=5)

        one_of(3, is_rebuilt)
    assert own_node.metrics()["holdfast_repair_restored_total"] >= 9


def test_a_redis_that_comes_back_empty_is_rebuilt(admin, client, event, org, db, own_node, own_redis):
    client.at(own_node).held(event, "A-1", "A-2")
    _, agrees = agreeing(db, own_redis, org, event)
    own_redis.stop()
    for n in range(3, 9):
        client.at(own_node).held(event, f"A-{n}", cart=f"c{n}")
    own_redis.start()
    wait_until(agrees, timeout=20)
    wait_until(lambda: registry(admin.at(own_node), event)["status"] == "ok", timeout=20)


def test_what_was_missed_while_redis_hung_is_made_good(admin, client, event, org, db, own_node, own_redis):
    """Old data: it knows a hold that is over and doesn't know the new one."""
    _, agrees = agreeing(db, own_redis, org, event)
    old = client.at(own_node).held(event, "A-1")
    wait_until(agrees, timeout=20)
    own_redis.pause()
    client.at(own_node).cancel(old["hold_id"]).expect(200)
    client.at(own_node).held(event, "A-2", "A-3", cart="c2")
    own_redis.resume()
    wait_until(agrees, timeout=20)


@pytest.mark.parametrize("name", ["a wrong owner", "a foreign key on a free seat", "a member lost", "a meta lost",
                                  "a member of a hold that is over", "a version beyond all"])
def test_drift_is_found_and_mended_in_the_background(client, event, org, db, start_node, own_redis, name):
    # A busy machine's Redis is no fault: it would be left alone for a while.
    node = start_node(redis_url=own_redis.url(), repair_interval="1s", redis_timeout_ms=2000)
    connection, agrees = agreeing(db, own_redis, org, event)
    hold = client.at(node).held(event, "A-1", "A-2")["hold_id"]
    wait_until(lambda: agrees() and node.metrics()['holdfast_repair_events_total{why="compared"}'] > 0, timeout=20)

    def drift():
        return node.metrics()["holdfast_repair_drift_total"]

    before = drift()
    DAMAGE[name][0](connection, prefix(org, event), hold)
    assert not agrees() or drift() > before  # it may be mended already
    wait_until(agrees, timeout=20)
    wait_until(lambda: drift() > before)
    wait_until(lambda: any(line["event"] == "warm_tier_drifted" for line in node.log_lines()))


def test_a_node_without_anything_to_mend_finds_no_drift(client, other, event, start_node, own_redis):
    """Under a busy seat: what is on its way is no drift."""
    node = start_node(redis_url=own_redis.url(), repair_interval="100ms", redis_timeout_ms=2000)
    begun, metrics = time.monotonic(), node.metrics()
    while metrics['holdfast_repair_events_total{why="compared"}'] < 5 or time.monotonic() < begun + 4:
        assert time.monotonic() < begun + 60, "nothing is compared"
        hold = client.at(node).held(event, "A-1", "A-2")["hold_id"]
        client.at(node).extend(hold).expect(200)
        client.at(node).cancel(hold).expect(200)
        metrics = node.metrics()
    assert metrics["holdfast_repair_drift_total"] == 0


# --- while everything moves ----------------------------------------------------------------------------------------


def changing(admin, event, number, goes_on, told):
    """A user who takes two seats, and extends, gives back, changes or lets them lapse."""
    chance, user = random.Random(number), admin.as_user()
    while goes_on():
        seats = [f"A-{n}" for n in chance.sample(range(1, 41), 2)]
        answer = yield hold_shot(user, event, *seats, cart=f"cart-{chance.random()}")
        if answer.status != 201:
            continue
        hold = answer.json
        told.append(hold)
        path = f"/api/holds/{hold['hold_id']}"
        for _ in range(chance.randrange(3)):
            yield chance.choice([
                shot(user, "POST", path + "/extend", {}),
                shot(user, "DELETE", f"{path}/seats/{seats[0]}", {}),
                shot(user, "PATCH", path, {"add_seat_ids": [f"A-{chance.randint(1, 40)}"]}),
                shot(user, "POST", path + "/transfer", {"to_user_id": "heir"}),
            ])
        if chance.random() < 0.8:
            yield shot(user, "DELETE", path, {})


def hammering(admin, event, goes_on, done):
    while goes_on():
        answer = yield shot(admin, "POST", f"/api/admin/registry/{event}/reconcile", {})
        if answer.code != "store_unavailable":  # said when the disk took most of a second for somebody's commit
            done.append(answer.expect(200).json)


def breaking(redis, org, event, stop):
    """Somebody who takes keys away and plants wrong ones."""
    chance, p = random.Random(1), prefix(org, event)
    while not stop.wait(0.002):
        seat = f"A-{chance.randint(1, 40)}"
        chance.choice([lambda: redis.delete(f"{p}:seat:{seat}"),
                       lambda: redis.set(f"{p}:seat:{seat}", value_of()),
                       lambda: redis.zremrangebyrank(f"{p}:seat_holds", 0, 0),
                       lambda: redis.zadd(f"{p}:seat_holds", {f"{seat}:{uuid.uuid4()}:x": 1})])()


@pytest.mark.parametrize("ttl", [60, 1])
def test_reconcile_in_the_middle_of_a_sale_leaves_no_trace(admin, org, db, redis, prove, ttl):
    """Nothing repairs Redis after the last reconcile: what it did wrong would be seen."""
    event = admin.make_event(40, policy={"hold_ttl": ttl, "extend_by": 1, "max_hold": 120})
    told, done, end = [], [], time.monotonic() + 6

    def goes_on():
        return time.monotonic() < end or len(told) <= 20 or len(done) <= 3

    drive([changing(admin, event, n, goes_on, told) for n in range(12)] + [hammering(admin, event, goes_on, done)])
    wait_until(lambda: not differences(db, redis, org, event), timeout=10, every=0.1,
               what="Redis is as Postgres")
    prove(event, told, complete=False)  # PATCH tells of seats in other answers


def test_reconcile_against_somebody_who_breaks_things(admin, org, db, redis, prove):
    event = admin.make_event(40, policy={"hold_ttl": 60, "extend_by": 1, "max_hold": 120})
    told, done, end, stop = [], [], time.monotonic() + 5, threading.Event()
    thread = threading.Thread(target=breaking, args=(redis, org, event, stop))
    thread.start()

    def goes_on():
        return time.monotonic() < end or any(sum(one[what] for one in done) <= 10 for what in ("restored", "removed"))

    try:
        drive([changing(admin, event, n, goes_on, told) for n in range(8)] + [hammering(admin, event, goes_on, done)])
    finally:
        stop.set()
        thread.join()
    reconcile(admin, event)
    wait_until(lambda: not differences(db, redis, org, event))  # nothing repairs it after that
    prove(event, told, complete=False)  # PATCH tells of seats in other answers
