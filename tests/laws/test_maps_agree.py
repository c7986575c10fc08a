"""Map, deltas, stream and Postgres say the same of every seat and area, whoever reads them and however.

While everything that can change a map happens at random on two nodes, clients follow it: some by asking either node
what changed since the version they have, some by a snapshot and the stream, cut off at random and resumed on either
node. When it has become quiet all of them have what Postgres has. HOLDFAST_LONG=1 takes a minute for it.
"""

import collections
import os
import random
import selectors
import threading
import time

from support.checkouts import cancel_shot, complete_shot, start_shot
from support.client import Client, seat
from support.house import LONG
from support.sse import EventStream
from support.swarm import Shot, allow_descriptors, drive, hold_shot, pause, shot
from support.tables import query
from support.waiting import wait_until

NODE_SETTINGS = {"rate_limits": "off", "request_timeout": "30s"}  # a slow machine is no fault
SECONDS = 60 if LONG else 8
BUYERS, POLLERS, LISTENERS = (40, 12, 12) if LONG else (16, 6, 6)
SEATS, GUESTS = 1_000 if LONG else 120, 40  # guests are seats that come and go
SALES = SEATS // 2  # so many, then nobody buys any more
AREAS = {"floor": 600 if LONG else 60, "balcony": 30}
POLICY = {"hold_ttl": 2, "extend_by": 1, "max_hold": 900, "max_seats_per_hold": 8}
FRESH_S, MUCH_TOO_OLD_S = 1.0, 10.0  # on other nodes: nearly always, for a process may stand still; and ever
NEARLY_ALWAYS = 0.98
# Without these it proves little: where the machine is slow, it goes on until each has happened.
MUST_HAPPEN = ["hold", "patch", "cancel", "confirm", "checkout", "checkout tok_ok", "block", "put", "import", "remove",
               "resize", "witness", "delta"]


# --- who follows -------------------------------------------------------------------------------------------------


class Model:
    """What a client believes: {seat: (status, version)}, those that were removed too."""

    def __init__(self):
        self.seats, self.areas, self.version = {}, {}, None

    def learn(self, told):
        """Of one seat the newer version stands; the same one may say that its time is over."""
        if told["version"] >= self.seats.get(told["seat_id"], (None, -1))[1]:
            self.seats[told["seat_id"]] = (told["status"], told["version"])

    def take(self, seat_map):
        """A map, or a difference."""
        if self.version is None or seat_map.get("full"):
            self.seats = {}
        for entry in seat_map["seats"]:
            self.learn(entry)
        self.areas = {area["area_id"]: (area["capacity"], area["held"], area["sold"]) for area in seat_map["areas"]}
        self.version = seat_map["version"]

    @property
    def standing(self):
        return {name: state for name, state in self.seats.items() if state[0] != "removed"}


class Listener:
    """A snapshot and the stream; cut off again and again."""

    def __init__(self, reader, event, nodes, seed):
        self.reader, self.event, self.nodes, self.chance = reader, event, nodes, random.Random(seed)
        self.model, self.counts = Model(), None
        self.seen = collections.Counter()
        self.stream, self.applied = None, 0
        self.connect()

    def connect(self):
        """At any node, where it was; who has nothing opens the stream first, so that nothing falls between."""
        last = self.stream.last_id if self.stream else None
        if self.stream:
            self.stream.close()
        self.node = self.chance.choice(self.nodes)
        self.stream, self.applied = EventStream(self.reader, self.event, last_event_id=last, node=self.node), 0
        if last is None:
            self.stream.expect(200)
            self.read_map()
        self.cut_at = time.monotonic() + self.chance.expovariate(3)

    def read_map(self):
        self.model.version = None
        self.model.take(self.reader.at(self.node).seats(self.event).expect(200).json)

    def receive(self):
        self.stream.receive(0.001)
        while self.applied < len(self.stream.events):
            self.apply(self.stream.events[self.applied])
            self.applied += 1

    def apply(self, event):
        self.seen[event.name] += 1
        if event.name == "reset":
            self.read_map()
        elif event.name == "occupancy_changed":
            self.counts = event.data
        else:
            self.model.learn(event.data)


class Audience:
    """All listeners, in a thread of their own."""

    def __init__(self, listeners):
        self.listeners, self.failure = listeners, None
        self.settling = self.over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        self.over = True
        self._thread.join(30)
        for listener in self.listeners:
            listener.stream.close()
        if kind is None and self.failure is not None:
            raise self.failure

    def _run(self):
        try:
            while not self.over:
                self._turn()
        except BaseException as failure:  # whatever it is, the test is told
            self.failure = failure

    def _turn(self):
        now = time.monotonic()
        with selectors.DefaultSelector() as selector:
            for listener in self.listeners:
                if listener.stream.ended or (now >= listener.cut_at and not self.settling):
                    listener.connect()
                selector.register(listener.stream.socket, selectors.EVENT_READ, listener)
            for key, _ in selector.select(0.05):
                key.data.receive()


# --- what happens ------------------------------------------------------------------------------------------------


def csv_shot(admin, event, seats):
    text = "seat_id,section,row,number,price\n" + "".join(f"{name},side,{name[0]},{name[2:]},{price}\n"
                                                          for name, price in seats)
    head = [f"POST /api/events/{event}/seats/import HTTP/1.1", "Host: holdfast", "Content-Type: text/csv",
            f"Authorization: Bearer {admin.token}", f"Content-Length: {len(text)}", "", ""]
    return Shot(admin.node, ("\r\n".join(head) + text).encode())


def bag(chance, things):
    """Each of them in turn, in ever another order: none is forgotten where there is little time."""
    while True:
        yield from chance.sample(things, len(things))


class Traffic:
    """Buyers, an administrator, and witnesses of how fresh a map is."""

    def __init__(self, org, event, nodes, seed):
        self.org, self.event, self.nodes, self.seed = org, event, nodes, seed
        self.until = time.monotonic() + SECONDS
        self.happened = collections.Counter()
        self.ages = []  # how old maps on other nodes were at the most, of each change that a witness made
        chance = random.Random(seed)
        self.next_step = bag(chance, ["patch", "cancel", "confirm", "checkout", "extend", "expire", "part", "area"])
        self.next_end = bag(chance, ["tok_ok", "tok_declined", "cancel"])
        self.next_task = bag(chance, ["block", "unblock", "put", "import", "remove", "remove", "resize", "release"])

    def going_on(self):
        late_s = time.monotonic() - self.until
        return late_s < 0 or (late_s < 40 and not all(self.happened[what] for what in MUST_HAPPEN))

    def do(self, what, a_shot):
        """Anything but our own failure may be the answer: they get in each other's way."""
        answer = yield a_shot
        assert answer is not None and answer.status < 500, (what, answer)
        self.happened[what if answer.status < 300 else f"{what}: {answer.code}"] += 1
        return answer

    def some_seats(self, chance, most):
        names = [f"A-{n}" for n in range(1, SEATS + 1)] + [f"G-{n}" for n in range(1, GUESTS + 1)]
        return chance.sample(names, chance.randint(1, most))

    def buyer(self, number):
        chance = random.Random(f"{self.seed}-{number}")
        while self.going_on():
            role = "agent" if number % 4 == 0 else "user"
            user = Client(chance.choice(self.nodes), self.org, f"buyer-{number}-{chance.randrange(1 << 40)}", role)
            more = {"ttl_seconds": 900} if role == "agent" and chance.random() < 0.3 else {}
            if chance.random() < 0.3:
                more["areas"] = [{"area_id": name, "quantity": chance.randint(1, 3)}
                                 for name in chance.sample(list(AREAS), chance.randint(1, 2))]
            seats = [] if more.get("areas") and chance.random() < 0.4 else self.some_seats(chance, 3)
            held = yield from self.do("hold", hold_shot(user, self.event, *seats, **more))
            if held.status == 201:
                yield from self.go_on_with(chance, user.at(chance.choice(self.nodes)), held.json)
            yield pause(chance.uniform(0, 0.1))

    def go_on_with(self, chance, user, hold):
        path = f"/api/holds/{hold['hold_id']}"
        what = next(self.next_step)
        if what in ("confirm", "checkout") and self.happened["confirm"] + self.happened["checkout tok_ok"] > SALES:
            what = "cancel"
        if what == "patch":
            drop = [entry["seat_id"] for entry in hold["seats"]][:1] if len(hold["seats"]) > 1 else []
            add = [name for name in self.some_seats(chance, 2) if name not in drop]
            yield from self.do(what, shot(user, "PATCH", path, {"add_seat_ids": add, "remove_seat_ids": drop}))
        elif what == "area":
            areas = [{"area_id": chance.choice(list(AREAS)), "quantity": chance.randint(0, 4)}]
            yield from self.do(what, shot(user, "PATCH", path, {"areas": areas}))
        elif what == "cancel":
            yield from self.do(what, shot(user, "DELETE", path))
        elif what == "part" and hold["seats"]:
            yield from self.do(what, shot(user, "DELETE", f"{path}/seats/{hold['seats'][0]['seat_id']}"))
        elif what in ("confirm", "extend"):
            yield from self.do(what, shot(user, "POST", f"{path}/{what}", {}))
        elif what == "checkout":
            yield from self.check_out(user)

    def check_out(self, user):
        started = yield from self.do("checkout", start_shot(user, self.event))
        if started.status != 201:
            return
        how = next(self.next_end)
        done = cancel_shot(user, started.json) if how == "cancel" else complete_shot(user, started.json, how)
        yield from self.do(f"checkout {how}", done)

    def administrator(self):
        chance, admin = random.Random(self.seed), Client(self.nodes[0], self.org, "admin-1", "admin")
        body = {"name": self.event, "kind": "event", "status": "on_sale"}
        while self.going_on():
            at = admin.at(chance.choice(self.nodes))
            what = next(self.next_task)
            guests = [f"G-{n}" for n in chance.sample(range(1, GUESTS + 1), 5)]
            if what in ("block", "unblock"):
                wanted = {"event_id": self.event, "seat_ids": [f"A-{chance.randint(1, SEATS)}"], "reason": "test"}
                yield from self.do(what, shot(at, "POST", f"/api/admin/seats/{what}", wanted))
            elif what == "put":
                seats = [seat(name, "side", name[0], name[2:], price=chance.randint(1, 99)) for name in guests]
                yield from self.do(what, shot(at, "PUT", f"/api/events/{self.event}", body | {"seats": seats}))
            elif what == "import":
                yield from self.do(what, csv_shot(at, self.event, [(name, chance.randint(1, 99)) for name in guests]))
            elif what == "remove":
                yield from self.do(what, shot(at, "DELETE", f"/api/events/{self.event}/seats/{guests[0]}"))
            elif what == "resize":
                areas = [{"area_id": name, "name": name, "capacity": size + chance.randint(-size, size)}
                         for name, size in AREAS.items()]
                yield from self.do(what, shot(at, "PUT", f"/api/events/{self.event}", body | {"areas": areas}))
            elif what == "release":
                wanted = {"event_id": self.event, "seat_ids": [f"A-{chance.randint(1, SEATS)}"]}
                yield from self.do(what, shot(at, "POST", "/api/admin/seats/release", wanted))
            yield pause(chance.uniform(0.02, 0.2))

    def poller(self, number, model):
        """Asks either node for what it lacks."""
        chance = random.Random(f"{self.seed}-poller-{number}")
        reader = Client(self.nodes[0], self.org, f"poller-{number}")
        while self.going_on():
            path = f"/api/events/{self.event}/seats" + (f"?since={model.version}" if model.version else "")
            answer = yield shot(reader.at(chance.choice(self.nodes)), "GET", path)
            model.take(answer.expect(200).json)
            self.happened["full" if answer.json.get("full") else "delta"] += 1
            yield pause(chance.uniform(0, 0.3))

    def witness(self, number):
        """Who was told of a change finds it on that node, and on another before long."""
        here, there = self.nodes[number % 2], self.nodes[(number + 1) % 2]
        user, name = Client(here, self.org, f"witness-{number}"), f"W-{number}"
        version = None
        while self.going_on():
            held = yield hold_shot(user, self.event, name)
            wanted = held.expect(201).json["seats"][0]["version"]
            told_at = time.monotonic()
            whole = yield shot(user, "GET", f"/api/events/{self.event}/seats")
            assert version_of(whole, name) >= wanted, "the node that said so shows it"
            if version:
                delta = yield shot(user, "GET", f"/api/events/{self.event}/seats?since={version}")
                assert version_of(delta, name) >= wanted
            version = whole.json["version"]
            age_s = 0.0
            while True:
                asked_at = time.monotonic()
                other = yield shot(user.at(there), "GET", f"/api/events/{self.event}/seats")
                if version_of(other, name) >= wanted:
                    break
                age_s = asked_at - told_at
                assert age_s < MUCH_TOO_OLD_S, f"{age_s:.2f} s old on the other node"
                yield pause(0.02)
            self.ages.append(age_s)
            gone = yield shot(user, "DELETE", f"/api/holds/{held.json['hold_id']}")
            gone.expect(200)
            self.happened["witness"] += 1
            yield pause(0.05)


def version_of(answer, name):
    return next((entry["version"] for entry in answer.expect(200).json["seats"] if entry["seat_id"] == name), -1)


# --- the proof ---------------------------------------------------------------------------------------------------


def truth(db, org, event):
    """({seat: (status, version)}, {area: (capacity, held, sold)}) as Postgres has them."""
    seats = query(db, "SELECT seat_id, status::text, version FROM seats WHERE (org_id, event_id) = (%s, %s) "
                  "AND status <> 'removed'", org, event)
    areas = query(db, "SELECT area_id, capacity, held, sold FROM areas WHERE (org_id, event_id) = (%s, %s)", org, event)
    return {name: (status, version) for name, status, version in seats}, {name: tuple(rest) for name, *rest in areas}


def await_quiet(db, org, event):
    """Nothing is over that stands as held."""
    wait_until(lambda: not query(db, "SELECT 1 FROM seat_holds WHERE (org_id, event_id, status) = (%s, %s, 'active') "
                                 "AND held_until <= clock_timestamp() + interval '2 s' AND NOT in_payment", org, event),
               timeout=15, what="all that is over has ended")


def counts_of(seats, areas):
    told = collections.Counter(status for status, _ in seats.values())
    counts = {"held": told["held"] + sum(held for _, held, _ in areas.values()),
              "sold": told["sold"] + sum(sold for _, _, sold in areas.values()),
              "total": len(seats) + sum(capacity for capacity, _, _ in areas.values())}
    return counts | {"available": counts["total"] - counts["held"] - counts["sold"] - told["blocked"]}


def difference(ours, theirs):
    return {name: (ours.get(name), theirs.get(name)) for name in ours.keys() | theirs.keys()
            if ours.get(name) != theirs.get(name)}


def await_listeners(audience, seats, areas):
    """Each has what Postgres has, and was told the counts of it."""
    counts = counts_of(seats, areas)

    def differences():
        return [each for each in audience.listeners
                if each.model.standing != seats or not counts.items() <= (each.counts or {}).items()]

    try:
        wait_until(lambda: audience.failure or not differences(), timeout=10)
    except AssertionError:
        first = differences()[0]
        raise AssertionError(f"{difference(seats, first.model.standing)}, {counts} but told {first.counts}") from None


def test_everybody_ends_with_the_same_map(node, start_node, admin, org, db, prove):
    allow_descriptors()
    nodes = [node, start_node(**NODE_SETTINGS)]
    seed = int(os.environ.get("HOLDFAST_SEED") or random.randrange(1 << 32))
    print(f"HOLDFAST_SEED={seed}")
    house = [seat(f"{row}-{n}", row=row, number=n)
             for row, count in (("A", SEATS), ("G", GUESTS), ("W", 4)) for n in range(count + 1)]
    event = admin.make_event(house, policy=POLICY, areas=[
        {"area_id": name, "name": name, "capacity": size} for name, size in AREAS.items()])
    reader = admin.as_user("listener")
    listeners = [Listener(reader, event, nodes, seed + n) for n in range(LISTENERS)]
    models = [Model() for _ in range(POLLERS)]
    with Audience(listeners) as audience:
        traffic = Traffic(org, event, nodes, seed)
        drive([*(traffic.buyer(n) for n in range(BUYERS)), *(traffic.poller(n, models[n]) for n in range(POLLERS)),
               *(traffic.witness(n) for n in range(4)), traffic.administrator()], SECONDS + 60)
        audience.settling = True
        seen = sum((listener.seen for listener in listeners), collections.Counter())
        print(dict(traffic.happened), dict(seen))
        await_quiet(db, org, event)
        seats, areas = truth(db, org, event)

        # Who asks either node, anew and with what he has, is told the same.
        for each in nodes:
            whole = Model()

            def is_whole(whole=whole, at=reader.at(each)):
                whole.take(at.seats(event).expect(200).json | {"full": True})
                return (whole.seats, whole.areas) == (seats, areas)

            wait_until(is_whole, what=f"{each.node_id}'s map is the table")
            for model in models:
                model.take(reader.at(each).get(f"/api/events/{event}/seats?since={model.version}").expect(200).json)
                assert not difference(seats, model.standing)
                assert model.areas == areas
        # And so is who listens.
        await_listeners(audience, seats, areas)
    assert truth(db, org, event) == (seats, areas), "it was quiet"
    for what in MUST_HAPPEN:
        assert traffic.happened[what], f"no {what} ever happened"
    old = [age for age in traffic.ages if age >= FRESH_S]
    assert len(old) <= (1 - NEARLY_ALWAYS) * len(traffic.ages) + 1, f"{old} s old on another node, of {len(traffic.ages)}"
    assert {"seat_held", "seat_released", "seat_sold"} <= set(seen)
    prove(event)
