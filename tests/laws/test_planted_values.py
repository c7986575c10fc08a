"""10,000 wrong values are planted in Redis: no answer is wrong, no seat is unsellable, and Redis is put right.

Wrong in type, in JSON, in owner, in version, without an end, with an end in the far future; true, but another
organization's, another seat's, or of before the release. HOLDFAST_SEED repeats the choice.
"""

import collections
import datetime
import json
import os
import random
import time

import pytest
import redis as redis_module

from support import statements
from support.house import LONG, House
from support.swarm import drive, hold_shot, shot, tally, volley
from support.tables import query
from support.truth import seats_of
from support.waiting import wait_until

PLANTED, ROUNDS = 10_000, 10
SEED = int(os.environ.get("HOLDFAST_SEED") or random.SystemRandom().randrange(10**6))
# Kinds that nothing but Postgres can tell from true ones.
PLAUSIBLE = ["another owner", "another owner without an end", "a version beyond all others"]
# Nodes compare Redis with Postgres so often; what is wrong is right soon after, or at once when somebody reads it.
REPAIR_INTERVAL_S = 60 if LONG else 10
REPAIRED_WITHIN_S = REPAIR_INTERVAL_S + 10
READS_OF_A_SEAT = {"read_seat", "hold_seats"}
REPAIR_OF_AN_EVENT = {"warm_event"}  # asked once by each, whatever it finds
NO_SUCH_HOLD = "01890000-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def house(workplace, log_folder):
    with House(workplace, log_folder, postgres=statements.PRELOADED, repair_interval=f"{REPAIR_INTERVAL_S}s") as house:
        yield house


@pytest.fixture
def db(house):
    with house.database() as connection:
        yield connection


@pytest.fixture
def redis(house):
    with redis_module.Redis.from_url(house.redis.url()) as connection:
        yield connection


def prefix(org, event):
    return f"holdfast:{{org:{org}:event:{event}}}"


def seat_key(org, event, seat):
    return f"{prefix(org, event)}:seat:{seat}"


# --- what is planted -------------------------------------------------------------------------------------------


class Planter:
    """Wrong values of every kind for the seats of one event. All come from values that stood under keys once:
    {seat: text} `before` of this event, now released, and `foreign`, of another organization's event."""

    def __init__(self, chance, org, event, before, foreign):
        self.chance, self.org, self.event, self.before, self.foreign = chance, org, event, before, foreign
        self.planted = collections.Counter()

    def forged(self, seat, **changes):
        """What a hold of this seat that Postgres doesn't know would have written."""
        text = next(iter(self.before.values()))
        value = {name: f"{self.org}/{self.event}/{seat}" if name == "seat" else field
                 for name, field in json.loads(text).items()}
        changes = {"hold_id": NO_SUCH_HOLD, "user_id": "nobody", "expires_at": "2099-01-01T00:00:00.000Z"} | changes
        return json.dumps(value | changes, separators=(",", ":"))

    def kinds(self, seat):
        """{name: (value, milliseconds to live)}"""
        true = self.before.get(seat) or self.forged(seat)
        foreign = self.foreign.get(seat) or self.chance.choice(list(self.foreign.values()))
        return {
            "another owner": (self.forged(seat), 660_000),
            "another owner without an end": (self.forged(seat), None),
            "another owner in the far future": (self.forged(seat, expires_at="9999-01-01T00:00:00.000Z"), 10**12),
            "another owner as of tomorrow": (self.forged(seat, as_of="2099-01-01T00:00:00.000Z"), 660_000),
            "a version beyond all others": (self.forged(seat, version=2**53 - 1), 660_000),
            "a version below all others": (self.forged(seat, version=0), 660_000),
            "another organization's": (foreign, 660_000),
            "another seat's": (self.chance.choice(list(self.before.values())), None),
            "of before the release": (true, 660_000),
            "of before the release without an end": (true, None),
            "long over": (self.forged(seat, expires_at="2001-01-01T00:00:00.000Z"), 660_000),
            "no JSON": ("no JSON", None),
            "half of it": (true[:self.chance.randrange(len(true))], 660_000),
            "nothing": ("", None),
            "types": (json.dumps({"hold_id": 7, "user_id": [], "version": "x", "expires_at": {}}), None),
            "bytes": (self.chance.randbytes(60), 660_000),
        }

    def plant(self, redis, seats):
        with redis.pipeline(transaction=False) as pipe:
            for seat in seats:
                self.plant_one(pipe, seat_key(self.org, self.event, seat), seat)
            pipe.execute(raise_on_error=False)

    def plant_one(self, pipe, key, seat):
        kinds = self.kinds(seat) | {"type": None}
        name = self.chance.choice(list(kinds))
        self.planted[name] += 1
        pipe.delete(key)
        if name == "type":
            self.chance.choice([lambda: pipe.rpush(key, "x"), lambda: pipe.hset(key, "hold_id", NO_SUCH_HOLD),
                                lambda: pipe.sadd(key, "x"), lambda: pipe.zadd(key, {"x": 1})])()
        else:
            pipe.set(key, kinds[name][0], px=kinds[name][1])


# --- asking, and what Postgres says ------------------------------------------------------------------------------


def ask_all(shots, at_once=100):
    """The answers to all, so many at a time."""
    def portion(number):
        answers = []
        for a_shot in shots[number::at_once]:
            answers.append((yield a_shot))
        return answers

    portions = drive([portion(number) for number in range(at_once)])
    return [portions[n % at_once][n // at_once] for n in range(len(shots))]


def shown_by_postgres(db, org, event, user):
    """{seat: (status, version, whether it is this user's)}, as it is to be shown."""
    rows = query(db, """
        SELECT seat_id, CASE WHEN status = 'held' AND held_until <= clock_timestamp() AND NOT in_payment
            THEN 'available' ELSE status::text END, version, user_id FROM seats
        WHERE org_id = %s AND event_id = %s""", org, event)
    return {seat: (status, version, status in ("held", "sold") and owner == user)
            for seat, status, version, owner in rows}


def shown_one_by_one(user, event, seats):
    answers = ask_all([shot(user, "GET", f"/api/events/{event}/seats/{seat}") for seat in seats])
    return {seat: (answer.expect(200).json["status"], answer.json["version"], answer.json.get("mine", False))
            for seat, answer in zip(seats, answers)}


def assert_reads_are_true(db, node, user, event, seats):
    """One by one, as a map and as counts: what Postgres has. Nothing changes meanwhile."""
    at = user.at(node)
    true = shown_by_postgres(db, user.org, event, user.user)
    shown = shown_one_by_one(at, event, seats)
    wrong = {seat: (shown[seat], true[seat]) for seat in seats if shown[seat] != true[seat]}
    assert not wrong, f"{len(wrong)} of {len(seats)} seats are shown wrong (shown, true): {list(wrong.items())[:5]}"
    assert map_of(at, event) == {seat: (status, version) for seat, (status, version, _) in true.items()}
    counts = collections.Counter(status for status, _, _ in true.values())
    wait_until(lambda: all(at.occupancy(event).expect(200).json[name] == counts[name]
                           for name in ("available", "held", "sold")), timeout=10, what="the counts are true")


def map_of(user, event):
    return {seat["seat_id"]: (seat["status"], seat["version"]) for seat in user.seats(event).expect(200).json["seats"]}


def released(user, event, seats, redis):
    """Holds these seats and gives them back; {seat: the value that stood under its key meanwhile}."""
    eights = [seats[n:n + 8] for n in range(0, len(seats), 8)]
    holds = [answer.expect(201).json for answer in ask_all([
        hold_shot(user, event, *some, cart=some[0]) for some in eights])]
    keys = [seat_key(user.org, event, seat) for seat in seats]
    stood = wait_until(lambda: all(values := redis.mget(keys)) and values, what="keys are written")
    for answer in ask_all([shot(user, "DELETE", f"/api/holds/{hold['hold_id']}") for hold in holds]):
        answer.expect(200)
    return dict(zip(seats, (value.decode() for value in stood)))


# --- the tests ---------------------------------------------------------------------------------------------------


def test_ten_thousand_wrong_values_change_no_answer(house, planted_early, db, redis):
    """Each seat is planted before these nodes have ever heard of it, and looked at; then some are bought."""
    print(f"HOLDFAST_SEED={SEED}")
    chance, admin, stranger = random.Random(SEED), house.admin(), house.admin()
    seats = [f"A-{n + 1}" for n in range(PLANTED)]
    event = admin.make_event(PLANTED, policy={"hold_ttl": 600, "max_hold": 3600})
    stranger.make_event(800, event=event, policy={"hold_ttl": 600, "max_hold": 3600})
    user, other, foreigner = admin.as_user("user-1"), admin.as_user("user-2"), stranger.as_user("user-1")
    planter = Planter(chance, admin.org, event, released(user, event, seats[::2], redis),
                      released(foreigner, event, seats[:800], redis))
    house.nodes[0].stop()
    house.nodes = [house.new_node(), house.new_node(), *house.nodes[1:]]
    fresh, owner_of, holds = house.nodes[:2], {}, {}
    for turn in range(ROUNDS):
        now = seats[turn::ROUNDS]
        planter.plant(redis, now)
        assert_reads_are_true(db, fresh[turn % 2], user, event, now)
        for buyer in (user.at(fresh[0]), other.at(fresh[1])):
            change_some(chance, event, chance.sample(now, 150), buyer, owner_of, holds)
        planter.plant(redis, list(owner_of))
    assert_as_owned(db, admin.org, event, owner_of)
    assert set(planter.planted) == set(planter.kinds("A-1")) | {"type"}
    assert planter.planted.total() >= PLANTED
    house.prove(admin.org, event)


def change_some(chance, event, seats, user, owner_of, holds):
    """The user holds some, gives some back and buys some: every answer is known beforehand."""
    answers = ask_all([hold_shot(user, event, seat, cart=f"{seat}") for seat in seats])
    for seat, answer in zip(seats, answers):
        owner, sold = owner_of.get(seat, (None, False))
        if owner is None:
            if answer.code == "seat_taken" and seat in holds:  # freed on the other node a moment ago: still news here
                answer = wait_until(lambda: (again := user.hold_one(event, seat, cart=seat)).status == 201 and again,
                                    timeout=2, what=f"{seat} is free here too")
            holds[seat] = answer.expect(201).json["hold_id"]
            owner_of[seat] = (user.user, False)
        elif sold:
            answer.expect(409, "seat_sold")
        elif owner == user.user:
            assert answer.expect(200).json["hold_id"] == holds[seat]
        else:
            answer.expect(409, "seat_taken")
    give_back_and_buy(user, chance, [seat for seat in seats if owner_of[seat] == (user.user, False)], owner_of, holds)


def give_back_and_buy(user, chance, seats, owner_of, holds):
    ends = {seat: chance.choice(["cancel", "cancel", "confirm", "extend", "keep"]) for seat in seats}
    shots = {"cancel": lambda path: shot(user, "DELETE", path), "keep": lambda path: shot(user, "GET", path),
             "confirm": lambda path: shot(user, "POST", f"{path}/confirm", {}),
             "extend": lambda path: shot(user, "POST", f"{path}/extend", {"seconds": 1})}
    answers = ask_all([shots[what](f"/api/holds/{holds[seat]}") for seat, what in ends.items()])
    for (seat, what), answer in zip(ends.items(), answers):
        assert answer.expect(200).json["status"] == {"cancel": "cancelled", "confirm": "converted"}.get(what, "active")
        if what == "cancel":
            del owner_of[seat]
        elif what == "confirm":
            owner_of[seat] = (user.user, True)


def assert_as_owned(db, org, event, owner_of):
    for seat, (status, _, owner) in seats_of(db, org, event).items():
        expected = owner_of.get(seat, (None, False))
        assert (owner if status != "available" else None, status == "sold") == expected, seat


@pytest.fixture(scope="module")
def planted_early(house):
    """(keys of held seats, their holds, keys of free seats): planted before the other tests, which take a while."""
    admin, seats = house.admin(), [f"A-{n + 1}" for n in range(100)]
    event = admin.make_event(200, policy={"hold_ttl": 600})
    holds = [answer.expect(201).json["hold_id"] for answer in ask_all([
        hold_shot(admin.as_user("user-1"), event, seat, cart=seat) for seat in seats])]
    held = [seat_key(admin.org, event, seat) for seat in seats]
    free = [seat_key(admin.org, event, f"A-{n + 1}") for n in range(100, 200)]
    with redis_module.Redis.from_url(house.redis.url()) as redis:
        true = wait_until(lambda: all(values := redis.mget(held)) and values, what="keys are written")
        # True values in a wrong place are among what is planted.
        before = {seat: value.decode() for seat, value in zip(seats[1:] + seats[:1], true)}
        Planter(random.Random(SEED), admin.org, event, before, before).plant(redis, [f"A-{n + 1}" for n in range(200)])
    return held, holds, free, time.monotonic()


def values_of(redis, keys):
    with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.get(key)
        return pipe.execute(raise_on_error=False)


def hold_of(value):
    """None: this is no value of ours."""
    try:
        return json.loads(value)["hold_id"] if isinstance(value, bytes) else None
    except (ValueError, TypeError, KeyError):
        return None


@pytest.mark.parametrize("of", ["a free seat", "a held seat"])
def test_a_wrong_value_costs_one_read_of_postgres_a_second(house, db, redis, of):
    """A crowd looks at a seat whose key is wrong, and wants it: neither costs Postgres a read each.

    The key is older than a second: what was committed just now Redis may say to who only looks.
    """
    admin = house.admin()
    event = admin.make_event(len(PLAUSIBLE) + 1, policy={"hold_ttl": 600})
    before = released(admin.as_user("former"), event, [f"A-{len(PLAUSIBLE) + 1}"], redis)
    age = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=30)
    aged = {seat: json.dumps(json.loads(text) | {"as_of": f"{age:%FT%T}.000Z"}) for seat, text in before.items()}
    planter = Planter(random.Random(SEED), admin.org, event, aged, aged)
    statements.prepare(db)
    for number, kind in enumerate(PLAUSIBLE):
        seat = f"A-{number + 1}"
        if of == "a held seat":
            admin.as_user("owner").held(event, seat)
        redis.set(seat_key(admin.org, event, seat), planter.kinds(seat)[kind][0])
        statements.forget(db)
        began = time.monotonic()
        crowd_looks(house, admin, event, seat, "held" if of == "a held seat" else "available")
        if of == "a held seat":
            crowd_wants(house, admin, event, seat)
        crowd_looks(house, admin, event, seat, "held" if of == "a held seat" else "available")
        calls = statements.calls(db)
        allowed = len(house.nodes) * (int(time.monotonic() - began) + 2)
        for statements_of in (READS_OF_A_SEAT, REPAIR_OF_AN_EVENT):
            asked = {name: count for name, count in calls.items() if name in statements_of}
            assert sum(asked.values()) <= allowed, f"{kind}: {asked}, {allowed} allowed"


def crowd_looks(house, admin, event, seat, status):
    answers = volley([shot(user, "GET", f"/api/events/{event}/seats/{seat}") for user in crowd_of(house, admin)])
    assert {answer.expect(200).json["status"] for answer in answers} == {status}


def crowd_wants(house, admin, event, seat):
    answers = volley([hold_shot(user, event, seat) for user in crowd_of(house, admin)])
    assert tally(answers) == {(409, "seat_taken"): len(answers)}


def crowd_of(house, admin):
    return [admin.as_user(f"user-{n}").at(house.nodes[n % len(house.nodes)]) for n in range(250)]


def test_wrong_values_are_put_right_though_nobody_asks(planted_early, redis):
    held, holds, free, began = planted_early

    def wrong():
        read = dict(zip(held + free, values_of(redis, held + free)))
        stays = {key: read[key] for key in free if read[key] not in (None, b"")}  # an empty text names nobody
        return {key: read[key] for key, hold in zip(held, holds) if hold_of(read[key]) != hold} | stays

    left = REPAIRED_WITHIN_S - (time.monotonic() - began)
    try:
        wait_until(lambda: not wrong(), timeout=max(left, 5), every=0.5)
    except AssertionError:
        still = wrong()
        raise AssertionError(f"{len(still)} keys are wrong still, such as {list(still.items())[:5]}") from None
