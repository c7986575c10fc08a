"""GET /api/events/{event}/seats/{seat}: status, version, whose it is, and which tier said so."""

import datetime
import json
import time

import pytest

from support.client import Client
from support.contract import time_of
from support.tables import seat_row
from support.waiting import wait_until
from support.warm_truth import differences

FIELDS = {"seat_id", "status", "version"}
HOT_LEASE_S = 1.0


def key_of(org, event, seat_id):
    return f"holdfast:{{org:{org}:event:{event}}}:seat:{seat_id}"


def test_a_free_seat(client, event, db, org):
    answer = client.seat(event, "A-1").expect(200)
    assert set(answer.json) <= FIELDS | {"mine"} and not answer.json.get("mine")
    assert (answer.json["seat_id"], answer.json["status"]) == ("A-1", "available")
    assert answer.json["version"] == seat_row(db, org, event, "A-1").version
    assert answer.headers["X-Holdfast-Tier"] in ("hot", "redis", "postgres")


def test_ones_own_seat_is_mine_and_nobody_elses(client, other, event):
    hold = client.held(event, "A-1")
    mine = client.seat(event, "A-1").json
    assert (mine["status"], mine["mine"], mine["held_until"]) == ("held", True, hold["expires_at"])
    theirs = other.seat(event, "A-1").json
    assert theirs["status"] == "held" and not theirs.get("mine")
    assert set(theirs) <= FIELDS | {"mine", "held_until"}
    assert client.user not in other.seat(event, "A-1").body.decode()


def test_a_sold_seat_is_still_its_buyers(client, other, event):
    client.confirm(client.held(event, "A-1")["hold_id"]).expect(200)
    assert client.seat(event, "A-1").json["status"] == "sold"
    assert client.seat(event, "A-1").json["mine"] is True
    assert not other.seat(event, "A-1").json.get("mine")
    assert "held_until" not in client.seat(event, "A-1").json


def test_memory_answers_what_it_knows(client, other, event):
    client.held(event, "A-1")
    answer = other.seat(event, "A-1")
    assert answer.headers["X-Holdfast-Tier"] == "hot" and answer.json["status"] == "held"


def test_beside_other_nodes_memory_calls_a_seat_free_for_a_second_only(client, other, event, start_node):
    """One that is killed after its answer and before it told the others must not leave its buyer a free seat."""
    third = other.at(start_node())
    hold = client.held(event, "A-1")
    wait_until(lambda: third.seat(event, "A-1").headers["X-Holdfast-Tier"] == "hot", what="it was told of the hold")
    client.cancel(hold["hold_id"]).expect(200)
    wait_until(lambda: third.seat_status(event, "A-1") == "available", what="it was told of the end")
    for _ in range(2):
        time.sleep(HOT_LEASE_S + 0.1)
        answer = third.seat(event, "A-1")
        assert (answer.json["status"], answer.headers["X-Holdfast-Tier"]) == ("available", "postgres")


def test_each_answer_says_the_truth_after_a_change(client, other, event, db, org):
    for step in (lambda: client.held(event, "A-1"), lambda: client.extend(hold_of(client, event)),
                 lambda: client.cancel(hold_of(client, event)), lambda: other.held(event, "A-1"),
                 lambda: other.confirm(hold_of(other, event))):
        step()
        row = seat_row(db, org, event, "A-1")
        shown = client.seat(event, "A-1").json
        assert (shown["status"], shown["version"]) == (row.status, row.version)
        assert ("held_until" in shown) == (row.status == "held")


def hold_of(client, event):
    return client.get(f"/api/holds?event_id={event}").json["holds"][0]["hold_id"]


def test_a_node_that_knows_nothing_yet_asks_below(client, other, event, start_node):
    hold = client.held(event, "A-1")
    client.confirm(client.held(event, "A-2", cart="c2")["hold_id"]).expect(200)
    second = other.at(start_node())
    for seat_id, status in (("A-1", "held"), ("A-2", "sold"), ("A-3", "available")):
        answer = second.seat(event, seat_id).expect(200)
        assert answer.json["status"] == status
        assert answer.headers["X-Holdfast-Tier"] in ("hot", "redis", "postgres")
    assert second.seat(event, "A-1").json["held_until"] == hold["expires_at"]


def test_the_etag_of_a_seat(client, other, event):
    client.held(event, "A-1")
    path = f"/api/events/{event}/seats/A-1"
    tag = client.get(path).headers["ETag"]
    assert client.get(path, headers={"If-None-Match": tag}).expect(304).body == b""
    client.cancel(hold_of(client, event)).expect(200)
    client.get(path, headers={"If-None-Match": tag}).expect(200)


def test_over_is_shown_free_at_its_end(client, admin):
    event = admin.make_event(1, policy={"hold_ttl": 1})
    hold = client.held(event, "A-1")
    assert time_of(client.seat(event, "A-1").json["held_until"]) == time_of(hold["expires_at"])
    free = wait_until(lambda: client.seat(event, "A-1").json if client.seat_status(event, "A-1") == "available" else None)
    assert "held_until" not in free and not free.get("mine")


# --- which tier answers --------------------------------------------------------------------------------------


@pytest.fixture
def start_deaf(start_node, redis, empty_redis):
    """Starts a node that no other one tells anything: what it knows of their work it has read in Redis or Postgres."""
    redis.acl_setuser("deaf", enabled=True, nopass=True, keys=["*"], channels=["*"],
                      commands=["+@all", "-subscribe"], reset=True)
    address = empty_redis.split("://", 1)[1].rsplit("@", 1)[-1]
    yield lambda **settings: start_node(redis_url=f"redis://deaf:any@{address}", **settings)
    redis.acl_deluser("deaf")


@pytest.fixture
def second(start_deaf):
    return start_deaf()


def assert_true(answer, db, org, event, seat_id):
    """The answer is what Postgres has."""
    row, shown = seat_row(db, org, event, seat_id), answer.expect(200).json
    assert (shown["status"], shown["version"]) == (row.status, row.version)
    assert ("held_until" in shown) == (row.status == "held")
    if row.status == "held":
        assert abs(time_of(shown["held_until"]) - row.held_until) < datetime.timedelta(milliseconds=1)


def test_redis_tells_a_second_node_of_a_hold_while_it_is_fresh(client, admin, other, start_deaf, redis, db, org):
    event = admin.make_event(30 + len(WRONG))
    second = start_deaf(repair_interval="1s")  # a new event is compared, and trusted from then on, after this long
    seat_ids = iter([f"A-{number}" for number in range(1, 31)])
    told = []

    def by_redis():
        seat_id = next(seat_ids)
        hold = client.held(event, seat_id, cart=f"cart-{seat_id}")
        answer = other.at(second).seat(event, seat_id)
        assert_true(answer, db, org, event, seat_id)
        told.append((seat_id, hold))
        return answer.headers["X-Holdfast-Tier"] == "redis"

    wait_until(by_redis, timeout=20, every=0.9, what="Redis is trusted for the event")
    seat_id, hold = told[-1]
    answer = client.at(second).seat(event, seat_id)
    assert answer.json["mine"] is True and answer.json["held_until"] == hold["expires_at"]
    assert not other.at(second).seat(event, seat_id).json.get("mine")
    assert "X-Holdfast-Stale" not in answer.headers

    value = redis.get(key_of(org, event, seat_id))
    for number, make in enumerate(WRONG.values(), 31):  # trusted or not, these are not believed
        redis.set(key_of(org, event, f"A-{number}"), make(json.loads(value), f"{org}/{event}/A-{number}"))
        assert_true(other.at(second).seat(event, f"A-{number}"), db, org, event, f"A-{number}")
    time.sleep(HOT_LEASE_S + 0.1)
    assert other.at(second).seat(event, seat_id).headers["X-Holdfast-Tier"] == "postgres"
    assert redis.get(key_of(org, event, seat_id)) == value


def test_an_older_hold_is_asked_of_postgres_and_then_known(client, other, event, second, db, org):
    client.held(event, "A-1")
    time.sleep(HOT_LEASE_S + 0.1)

    def tier():
        answer = other.at(second).seat(event, "A-1")
        assert_true(answer, db, org, event, "A-1")
        return answer.headers["X-Holdfast-Tier"]

    assert tier() == "postgres"
    wait_until(lambda: tier() == "hot")  # the next one, but on a machine that stalls for a second between the two


# --- wrong values in Redis -------------------------------------------------------------------------------------


def in_time(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


# Each makes a wrong value of the true one of A-1, to be planted under another seat's key.
WRONG = {
    "nonsense": lambda value, here: "nonsense",
    "half of it": lambda value, here: json.dumps(value)[:-7],
    "a list": lambda value, here: json.dumps([value]),
    "of another seat": lambda value, here: json.dumps(value | {"as_of": in_time(0)}),
    "of another organization": lambda value, here: json.dumps(value | {"seat": "other-org/" + here.split("/", 1)[1],
                                                                       "as_of": in_time(0)}),
    "without a seat": lambda value, here: json.dumps({name: value[name] for name in value if name != "seat"}),
    "without its age": lambda value, here: json.dumps({name: value[name] for name in value if name != "as_of"}
                                                      | {"seat": here}),
    "of yesterday": lambda value, here: json.dumps(value | {"seat": here, "as_of": in_time(-86400)}),
    "of tomorrow": lambda value, here: json.dumps(value | {"seat": here, "as_of": in_time(86400)}),
    "with another owner": lambda value, here: json.dumps(value | {"seat": here, "user_id": "user-2",
                                                                  "as_of": in_time(-2)}),
    "forever": lambda value, here: json.dumps(value | {"seat": here, "expires_at": in_time(10 ** 9), "version": 2 ** 53,
                                                       "as_of": in_time(-2)}),
}


@pytest.mark.parametrize("state", ["free", "held", "sold"])
def test_a_wrong_value_is_never_told_and_is_put_right(admin, client, other, second, redis, db, org, state):
    event = admin.make_event(len(WRONG) + 1, policy={"max_seats_per_hold": len(WRONG)})
    client.held(event, "A-1")
    value = json.loads(wait_until(lambda: redis.get(key_of(org, event, "A-1"))))
    seat_ids = [f"A-{number}" for number in range(2, len(WRONG) + 2)]
    if state != "free":
        hold = client.held(event, *seat_ids, cart="cart-2")
        if state == "sold":
            client.confirm(hold["hold_id"]).expect(200)
    # What the engine still writes would take the place of what is planted.
    wait_until(lambda: not differences(db, redis, org, event))
    for seat_id, make in zip(seat_ids, WRONG.values()):
        redis.set(key_of(org, event, seat_id), make(value, f"{org}/{event}/{seat_id}"))  # without a TTL, too
    for seat_id in seat_ids:
        answer = other.at(second).seat(event, seat_id)
        # The first one that is read wakes repair: what it has put right by then may be told from Redis.
        assert answer.headers["X-Holdfast-Tier"] in (("postgres", "redis") if state == "held" else ("postgres",))
        assert_true(answer, db, org, event, seat_id)
        assert not answer.json.get("mine")
        if state != "held":
            assert redis.get(key_of(org, event, seat_id)) is None
    # Who reads drops what is wrong; what should stand there is written by repair, which hears of it.
    if state == "held":
        wait_until(lambda: all(stands_right(redis, db, org, event, seat_id) for seat_id in seat_ids), timeout=15)
    wait_until(lambda: not differences(db, redis, org, event), timeout=15)


def stands_right(redis, db, org, event, seat_id):
    row, stands = seat_row(db, org, event, seat_id), redis.get(key_of(org, event, seat_id))
    if stands is None:
        return False
    kept = json.loads(stands)
    assert (kept["hold_id"], kept["user_id"], kept["version"]) == (row.hold_id, "user-1", row.version)
    assert kept["seat"] == f"{org}/{event}/{seat_id}"
    return redis.ttl(key_of(org, event, seat_id)) > 0


def test_a_seat_held_by_no_line_is_left_as_it_is(client, other, event, second, redis, db, org):
    """Postgres was written by hand: what Redis should say is not known."""
    client.held(event, "A-1")
    hold = seat_row(db, org, event, "A-1").hold_id
    before = wait_until(lambda: redis.get(key_of(org, event, "A-1")))
    db.cursor().execute("DELETE FROM seat_holds WHERE hold_id = %s", (hold,))
    time.sleep(HOT_LEASE_S + 0.1)
    assert other.at(second).seat(event, "A-1").headers["X-Holdfast-Tier"] == "postgres"
    assert redis.get(key_of(org, event, "A-1")) == before


def test_a_key_of_another_type_is_not_told(client, second, redis, db, org, event):
    for seat_id in ("A-1", "A-2"):
        redis.rpush(key_of(org, event, seat_id), "x")
    client.held(event, "A-2")
    for seat_id in ("A-1", "A-2"):
        assert_true(client.at(second).seat(event, seat_id), db, org, event, seat_id)


def test_what_is_right_and_old_is_left_alone(client, other, event, second, redis, org):
    client.held(event, "A-1")
    before = wait_until(lambda: redis.get(key_of(org, event, "A-1")))
    time.sleep(HOT_LEASE_S + 0.1)
    assert other.at(second).seat(event, "A-1").headers["X-Holdfast-Tier"] == "postgres"
    assert redis.get(key_of(org, event, "A-1")) == before
    assert second.metrics()["holdfast_seat_reads_mended_total"] == 0


def test_a_wrong_value_costs_a_crowd_few_reads_of_postgres(other, event, second, redis, org):
    redis.set(key_of(org, event, "A-1"), "nonsense")
    reads = 'holdfast_seat_reads_total{tier="postgres"}'
    before = second.metrics()[reads]
    began = time.monotonic()
    for _ in range(300):
        assert other.at(second).seat_status(event, "A-1") == "available"
    assert second.metrics()[reads] - before <= 1 + (time.monotonic() - began) / HOT_LEASE_S


# --- without Postgres ---------------------------------------------------------------------------------------------


def test_without_postgres_an_old_value_is_told_and_marked(start_node, own_postgres, org):
    node = start_node(database_url=own_postgres.url())
    event = Client(node, org, "admin-1", "admin").make_event(3)
    buyer, other = Client(node, org, "user-1"), Client(node, org, "user-2")
    hold = buyer.held(event, "A-1")
    time.sleep(HOT_LEASE_S + 0.1)
    own_postgres.stop()
    answer = wait_until(lambda: told_without_postgres(buyer, event, "A-1"), timeout=10)
    assert answer.headers["X-Holdfast-Tier"] == "redis"
    shown = {name: answer.json.get(name) for name in ("seat_id", "status", "mine", "held_until")}
    assert shown == {"seat_id": "A-1", "status": "held", "mine": True, "held_until": hold["expires_at"]}
    assert other.seat(event, "A-2").code == "store_unavailable"  # about a free seat Redis says nothing
    own_postgres.start()
    answer = wait_until(lambda: [answer for answer in [buyer.seat(event, "A-1")] if answer.status == 200
                                 and answer.headers["X-Holdfast-Tier"] == "postgres"], timeout=10)[0]
    assert "X-Holdfast-Stale" not in answer.headers and answer.json["mine"] is True


def told_without_postgres(buyer, event, seat_id):
    answer = buyer.seat(event, seat_id)
    return answer if answer.headers.get("X-Holdfast-Stale") == "true" else None
