"""GET /api/events/{event}/occupancy: from memory, Redis or Postgres, always what was answered before on that node."""

import contextlib
import json
import re

import pytest

from support.bystander import HOLD_ALL_WRITES, holding
from support.client import Client
from support.contract import check_problem
from support.tables import query
from support.waiting import one_of, wait_until

NAMES = ("available", "held", "sold", "blocked", "total")
FLOOR = [{"area_id": "floor", "name": "Floor", "capacity": 8}]
WAYS = ["map", "recent", "redis", "postgres", "stale"]


def occupancy_key(org, event):
    return f"holdfast:{{org:{org}:event:{event}}}:occupancy"


def counts(client, event):
    told = client.occupancy(event).expect(200).json
    assert told["available"] + told["held"] + told["sold"] + told["blocked"] == told["total"], told
    return tuple(told[name] for name in NAMES)


def true_counts(db, org, event):
    """A recount: what Postgres has now."""
    rows = query(db, """
        SELECT CASE WHEN status = 'held' AND NOT in_payment AND held_until <= clock_timestamp() THEN 'available'
            ELSE status::text END, count(*) FROM seats
        WHERE org_id = %s AND event_id = %s AND status <> 'removed' GROUP BY 1""", org, event)
    n = {"available": 0, "held": 0, "sold": 0, "blocked": 0} | dict(rows)
    for capacity, held, sold in query(db, "SELECT capacity, held, sold FROM areas WHERE org_id = %s AND event_id = %s",
                                      org, event):
        n["available"] += capacity - held - sold
        n["held"] += held
        n["sold"] += sold
    return tuple(int(n[name]) for name in NAMES[:-1]) + (int(sum(n.values())),)


def reads(node):
    """{which way: how many reads it answered}, and how often Postgres counted."""
    metrics = node.metrics()
    return {way: metrics[f'holdfast_occupancy_reads_total{{from="{way}"}}'] for way in WAYS} | {
        "counts": metrics["holdfast_occupancy_counts_total"]}


@contextlib.contextmanager
def answered_by(node, **expected):
    before = reads(node)
    yield
    after = reads(node)
    assert {way: after[way] - before[way] for way in after if after[way] != before[way]} == expected


def load_map(client, event):
    """The seat map is in memory, and is believed."""
    client.seats(event).expect(200)
    before = reads(client.node)["map"]
    wait_until(lambda: client.occupancy(event).expect(200) and reads(client.node)["map"] > before, what="it is believed")


# --- what it says ------------------------------------------------------------------------------------------------


def test_occupancy_of_seats_and_areas(client, admin):
    event = admin.make_event(8, areas=FLOOR)
    client.held(event, "A-1")
    client.confirm(client.held(event, "A-2", cart="c2")["hold_id"]).expect(200)
    client.hold(event, cart="c3", areas=[{"area_id": "floor", "quantity": 3}]).expect(201)
    admin.post("/api/admin/seats/block", {"event_id": event, "seat_ids": ["A-3"], "reason": "x"}).expect(200)
    told = client.occupancy(event).expect(200).json
    assert tuple(told[name] for name in NAMES) == (10, 4, 1, 1, 16)
    assert (told["percent_available"], told["percent_held"]) == (62.5, 25.0)
    assert told["percent_sold"] in (6.2, 6.3)
    shares = [told[f"percent_{name}"] for name in ("available", "held", "sold", "blocked")]
    assert round(sum(shares), 1) == 100.0


def test_occupancy_of_nothing_is_zeros(client, admin):
    told = client.occupancy(admin.make_event(0)).expect(200).json
    assert {value for name, value in told.items() if name != "timestamp"} == {0}


def test_an_event_that_is_not_there_and_one_of_another_organization(client, node, event):
    check_problem(client.occupancy("nowhere"), "event_not_found")
    stranger = Client(node, "another-org", "user-1")
    check_problem(stranger.occupancy(event), "event_not_found")
    client.occupancy(event).expect(200)
    check_problem(stranger.occupancy(event), "event_not_found")


@pytest.mark.parametrize("in_memory", [False, True], ids=["counted", "from the map"])
def test_what_was_answered_before_is_shown(client, other, admin, db, org, in_memory):
    """Each kind of change, and after each the next read has it."""
    event = admin.make_event(8, areas=FLOOR)
    if in_memory:
        load_map(client, event)

    def check(*expected):
        assert counts(client, event) == expected == true_counts(db, org, event)

    check(16, 0, 0, 0, 16)
    hold = client.held(event, "A-1", "A-2")
    check(14, 2, 0, 0, 16)
    client.patch(f"/api/holds/{hold['hold_id']}", {"add_seat_ids": ["A-3"], "remove_seat_ids": ["A-1"]}).expect(200)
    check(14, 2, 0, 0, 16)
    mixed = other.hold(event, "A-4", areas=[{"area_id": "floor", "quantity": 3}]).expect(201).json
    check(10, 6, 0, 0, 16)
    client.confirm(hold["hold_id"]).expect(200)
    check(10, 4, 2, 0, 16)
    other.cancel(mixed["hold_id"]).expect(200)
    check(14, 0, 2, 0, 16)
    admin.post("/api/admin/seats/block", {"event_id": event, "seat_ids": ["A-5"], "reason": "x"}).expect(200)
    check(13, 0, 2, 1, 16)
    admin.post("/api/admin/seats/unblock", {"event_id": event, "seat_ids": ["A-5"], "reason": "x"}).expect(200)
    check(14, 0, 2, 0, 16)
    admin.delete(f"/api/events/{event}/seats/A-6").expect(200)
    check(13, 0, 2, 0, 15)
    admin.set_event(event, areas=[FLOOR[0] | {"capacity": 20}])
    check(25, 0, 2, 0, 27)


def test_occupancy_has_an_etag_wherever_it_comes_from(client, event):
    path = f"/api/events/{event}/occupancy"
    for seat in ("A-1", "A-2", "A-3"):
        tag = {"If-None-Match": client.occupancy(event).headers["ETag"]}
        answer = client.get(path, headers=tag).expect(304)
        assert answer.body == b"" and answer.headers["ETag"] == tag["If-None-Match"]
        client.held(event, seat, cart=seat)
        assert client.get(path, headers=tag).expect(200).json["held"] == int(seat[-1])
        if seat == "A-1":
            load_map(client, event)


# --- time --------------------------------------------------------------------------------------------------------


def set_end(db, event, seconds):
    """All holds of the event end so many seconds from now."""
    for table in ("seats", "seat_holds"):
        db.cursor().execute(f"UPDATE {table} SET held_until = clock_timestamp() + make_interval(secs => %s) "
                            "WHERE event_id = %s AND held_until IS NOT NULL", (seconds, event))


def are_over(db, event):
    return query(db, "SELECT max(held_until) < clock_timestamp() - interval '10 ms' FROM seats "
                     "WHERE event_id = %s AND status = 'held'", event)[0][0]


@pytest.mark.parametrize("in_memory", [False, True], ids=["counted", "from the map"])
def test_what_is_over_is_free_whether_or_not_it_was_cleaned_up(client, other, admin, db, database_url, in_memory):
    event = admin.make_event(2, policy={"hold_ttl": 60}, areas=FLOOR)
    client.held(event, "A-1")
    hold = other.hold(event, "A-2", areas=[{"area_id": "floor", "quantity": 5}]).expect(201).json
    with holding(database_url, HOLD_ALL_WRITES):  # nobody can end them
        set_end(db, event, 2)
        if in_memory:
            client.seats(event).expect(200)
        told = counts(client, event)
        assert told[1] == 7 or are_over(db, event)  # a machine may stall
        wait_until(lambda: are_over(db, event))
        # Memory says so when they are over whatever its error about the database's clock is.
        wait_until(lambda: counts(client, event) == (10, 0, 0, 0, 10))
        assert query(db, "SELECT count(*) FROM seats WHERE event_id = %s AND status = 'held'", event) == [(2,)]
    wait_until(lambda: other.get_hold(hold["hold_id"]).json["status"] == "expired", timeout=20)
    assert counts(client, event) == (10, 0, 0, 0, 10)


# --- where it comes from --------------------------------------------------------------------------------------------


def test_a_map_in_memory_answers_without_postgres(client, event):
    load_map(client, event)
    with answered_by(client.node, map=5):
        for n in range(1, 6):
            client.held(event, f"A-{n}", cart=f"c{n}")
            assert counts(client, event)[1] == n


def test_a_count_answers_until_something_changes(client, event):
    with answered_by(client.node, postgres=1, counts=1):
        counts(client, event)
    with answered_by(client.node, recent=3):
        for _ in range(3):
            counts(client, event)
    client.held(event, "A-1")
    with answered_by(client.node, postgres=1, counts=1):
        assert counts(client, event)[1] == 1


def test_one_node_counts_for_the_others(client, start_node, admin, redis, org):
    second = start_node()

    def shared():
        event = admin.make_event(5)
        counts(client, event)
        wait_until(lambda: redis.get(occupancy_key(org, event)), what="Redis has it")
        before = reads(second)
        assert counts(client.at(second), event) == (5, 0, 0, 0, 5)
        return reads(second)["redis"] == before["redis"] + 1 and reads(second)["counts"] == before["counts"] and event

    event = wait_until(shared, timeout=15, every=0.3, what="the second node is answered by Redis")
    assert 0 < redis.pttl(occupancy_key(org, event)) <= 10_000

    def heard_of(number):
        client.held(event, f"A-{number}", cart=f"c{number}")
        wait_until(lambda: counts(client.at(second), event)[1] == number, timeout=1, what="it hears of the change")

    one_of(5, heard_of)


WRONG = {
    "no JSON": lambda true: "x" * 100,
    "nothing": lambda true: "",
    "another JSON": lambda true: '{"available":9,"held":9,"sold":9,"blocked":9,"total":36}',
    "a list": lambda true: "[]",
    "other counts": lambda true: json.dumps(json.loads(true) | {"available": 0, "held": 5}, separators=(",", ":")),
    "one digit": lambda true: true.replace('"available":4', '"available":5', 1),
    "no seal": lambda true: true[:true.index(',"seal"')] + "}",
    "half of it": lambda true: true[:len(true) // 2],
    "far too much": lambda true: true + " " * 100_000,
    "another time": lambda true: re.sub(r'"as_of_us":(\d+)', lambda m: f'"as_of_us":{int(m[1]) - 1}', true),
    "a later end": lambda true: true.replace('"ends_at_us":1', '"ends_at_us":2'),
}


@pytest.fixture
def second(start_node):
    return start_node()


@pytest.fixture
def counted_by_another(client, second, node, admin, redis, org):
    """read(plant): one node counts events, and what plant(value, values of other events) returns takes the place of
    what Redis has of one of them. A second node, which has counted none, takes the others' true values from Redis
    right before and right after it reads that one: so nothing but the plant can keep it from the value.
    -> (event, {the ways that answered}, what was told)"""
    stranger = Client(node, f"{org}-2", "admin-1", "admin")

    def made(admin, held, **more):
        event = admin.make_event(10, **more)
        admin.held(event, *(f"A-{n}" for n in range(1, held + 1)), cart=event)
        return event

    def counted(client, event):
        counts(client, event)
        return wait_until(lambda: redis.get(occupancy_key(client.org, event)), what="Redis has it")

    def answered(event):
        before = reads(second)
        told = counts(client.at(second), event)
        return {way for way, n in reads(second).items() if n != before[way]}, told

    def read(plant):
        def tried():
            event, *sound = (made(admin, held) for held in (6, 2, 2))
            made(stranger, 1, event=event)
            true, foreign, _ = (counted(client, one) for one in (event, *sound))
            elsewhere = counted(stranger, event)
            redis.set(occupancy_key(org, event), plant(true, foreign, elsewhere), px=10_000)
            before, told, after = (answered(one) for one in (sound[0], event, sound[1]))
            return before == after == ({"redis"}, (8, 2, 0, 0, 10)) and (event, *told)

        return wait_until(tried, timeout=20, every=0.3, what="the second node is answered by Redis")

    return read


def test_what_is_right_in_redis_is_taken(counted_by_another):
    _, ways, told = counted_by_another(lambda true, *others: true)
    assert ways == {"redis"} and told == (4, 6, 0, 0, 10)


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_in_redis_harms_nothing(counted_by_another, redis, org, kind):
    event, ways, told = counted_by_another(lambda true, *others: WRONG[kind](true))
    assert ways == {"postgres", "counts"} and told == (4, 6, 0, 0, 10)

    def is_right():
        try:
            return json.loads(redis.get(occupancy_key(org, event)) or "null")["held"] == 6
        except (ValueError, TypeError, KeyError):  # what was planted
            return False

    wait_until(is_right, what="it is put right")


@pytest.mark.parametrize("whose", ["of another event", "of another organization"])
def test_a_value_from_elsewhere_is_not_believed(counted_by_another, whose):
    _, ways, told = counted_by_another(lambda true, *others: others[whose == "of another organization"])
    assert ways == {"postgres", "counts"} and told == (4, 6, 0, 0, 10)


def test_a_value_of_before_is_not_believed(client, second, event, redis, org):
    client.held(event, "A-1")
    counts(client, event)
    old = wait_until(lambda: redis.get(occupancy_key(org, event)))
    client.at(second).held(event, "A-2", cart="c2")
    redis.set(occupancy_key(org, event), old, px=10_000)
    with answered_by(second, postgres=1, counts=1):
        assert counts(client.at(second), event) == (8, 2, 0, 0, 10)


def test_a_change_of_a_hold_drops_what_redis_has(client, event, redis, org):
    """For whoever else reads it there."""
    key = occupancy_key(org, event)

    def dropped_by(change):
        redis.set(key, "{}", px=60_000)
        answer = change()
        wait_until(lambda: not redis.exists(key), what="it is dropped")
        return answer

    hold = dropped_by(lambda: client.held(event, "A-1", "A-2"))["hold_id"]
    dropped_by(lambda: client.extend(hold).expect(200))
    dropped_by(lambda: client.patch(f"/api/holds/{hold}", {"remove_seat_ids": ["A-1"]}).expect(200))
    dropped_by(lambda: client.confirm(hold).expect(200))
    hold = dropped_by(lambda: client.held(event, "A-1", cart="c2"))["hold_id"]
    dropped_by(lambda: client.cancel(hold).expect(200))


def test_without_redis_it_is_the_same(start_node, client, event):
    alone = client.at(start_node(redis_url="redis://127.0.0.1:1/0"))
    for n in range(1, 4):
        alone.held(event, f"A-{n}", cart=f"c{n}")
        assert counts(alone, event)[1] == n


# --- Postgres is away -------------------------------------------------------------------------------------------------


def test_without_postgres_it_is_what_was_known_and_says_so(start_node, proxied, database_url, client, admin):
    proxy, url = proxied(database_url)
    reader = client.at(start_node(database_url=url))
    counted, mapped, unknown = (admin.make_event(5) for _ in range(3))
    client.held(counted, "A-1")
    client.held(mapped, "A-1", "A-2", cart="c2")
    wait_until(lambda: counts(reader, counted)[1] == 1)
    reader.seats(mapped).expect(200)
    proxy.refuse()
    for event, held in ((counted, 1), (mapped, 2)):
        answer = wait_until(lambda e=event: (a := reader.occupancy(e)).headers.get("X-Holdfast-Stale") and a, timeout=10)
        assert answer.expect(200).json["held"] == held and answer.headers["X-Holdfast-Stale"] == "true"
    check_problem(reader.occupancy(unknown), "store_unavailable")
