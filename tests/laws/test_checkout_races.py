"""Checkouts and payments at the very edge: everything that may end a hold meets everything that may keep it.

First the 14:59 race and its kin: an owner acts within a few milliseconds of his hold's end while two rivals ask for the
same seats all the time. Either he has every seat, or he was told that it is over and the rivals have them: never both,
never neither. Then pairs of changes that meet at one checkout, hundreds of times on two nodes. HOLDFAST_LONG=1 takes
the counts that the issue names.
"""

import collections
import datetime
import random
import time

import pytest

from support.bystander import all_rows
from support.checkouts import (
    cancel_shot, complete_shot, in_payment, intent_status, outbox, release_shot, sales_of, start_shot, tickets_of,
    webhook_shot)
from support.client import Client, seat
from support.contract import time_of
from support.house import LONG
from support.swarm import drive, hold_shot, pause, shot
from support.tables import query
from support.truth import seats_of

NODE_SETTINGS = {"request_timeout": "30s", "webhook_secret": "a secret between us and the provider"}
NOBODY_SWEEPS = {"reaper_interval_ms": 600_000}

EDGES = 2000 if LONG else 200  # the race of the start; the number
OTHER_EDGES = 1000 if LONG else 100
PAIRS = 1000 if LONG else 100
LANES = 20
A_SECOND = 40  # so many ends
SEATS_EACH = 3
PRICE = 1500
SOON_S = 3.0  # whoever asks so long after a hold's end is not refused any more because of it
PATIENCE_S = 30.0  # but on a busy machine it may be long until somebody asks
RIVALS_EARLY_S = 0.1
AIM_S = 1.0  # no way to the database takes longer
EXTENDED_S = 300
TRIALS = 5


@pytest.fixture
def nodes(node, start_node):
    return node, start_node(**NODE_SETTINGS)


def priced(count):
    return [seat(f"A-{n}", number=n, price=PRICE) for n in range(1, count + 1)]


def seconds_of(text):
    return time_of(text).timestamp()


def said(answer):
    return (answer.status, answer.code) if answer is not None else None


# --- at the edge ---------------------------------------------------------------------------------------------------


class Aim:
    """When to send what is to be judged at a certain instant. The way there takes about half of what an answer takes;
    what came of the rounds before corrects that: further and further while it errs to one side, then closer."""

    def __init__(self, seed):
        self._draw = random.Random(seed)
        self._answer_s = 0.004  # how long one takes these days
        self._shift_s, self._step_s, self._last = 0.0, 0.001, None

    def wait(self, end_s):
        """Until 5 ms before or after the instant, by the database's clock, which is this machine's."""
        yield pause(max(0.0, end_s - AIM_S - time.time()))
        aside_s = self._draw.uniform(-0.005, 0.005)
        while (left_s := end_s + aside_s - self._early_s() - time.time()) > 0:
            yield pause(min(left_s, 0.02))  # what it has learnt meanwhile counts

    def _early_s(self):
        return min(AIM_S, max(0.0, self._answer_s / 2 + self._shift_s))

    def took(self, seconds):
        self._answer_s += (seconds - self._answer_s) / 4

    def learn(self, in_time):
        self._step_s = min(0.1, max(0.0004, self._step_s * (1.5 if in_time == self._last else 0.5)))
        self._shift_s += -self._step_s if in_time else self._step_s
        self._last = in_time


class Round:
    """An owner, some seats, and who got them."""

    def __init__(self, number):
        self.number = number
        self.seats = [f"A-{number * SEATS_EACH + n + 1}" for n in range(SEATS_EACH)]
        self.owner = f"owner-{number}"
        self.holds, self.checkout = [], None
        self.end_s = None  # when the first of its holds is over
        self.answer, self.answered_s = None, None
        self.taken = {}  # seat -> the rival's hold
        self.refused = []  # (seat, when it was asked for, when that was refused)
        self.heard = collections.Counter()  # what rivals were told

    def owner_lost(self):
        return self.answer is not None and self.answer.status >= 400

    def free_by(self, seat_id):
        """From when on a rival is not refused this seat: after the owner's refusal and the end of its own hold."""
        ends = [seconds_of(hold["expires_at"]) for hold in [*holds_of_checkout(self), *self.holds]
                if seat_id in {each["seat_id"] for each in hold["seats"]}]
        return max(self.answered_s, ends[0]) + SOON_S


def holds_of_checkout(this):
    """Their ends are later than those that the holds were born with."""
    return this.checkout["holds"] if this.checkout else []


class Edge:
    """`count` rounds, at about A_SECOND ends a second. The owner's `prepare(user, round)` holds and sets
    the end, at `maker`; then `act(user, round)` gives the shot that is sent at the edge, to either of `nodes`."""

    def __init__(self, admin, event, maker, nodes, count, prepare, act):
        self.event, self.maker, self.nodes = event, maker, nodes
        self.admin, self.prepare, self.act = admin, prepare, act
        self.agent = admin.as_user("agent", role="agent").at(maker)
        self.rounds = [Round(number) for number in range(count)]
        self.seconds = round(count / A_SECOND) + 1
        self.prepared, self.open = 0, False
        self.seed = random.randrange(2**32)
        self.aim = Aim(self.seed)

    def hold(self, this, *seats):
        """The owner's hold, by an agent, who alone may choose when it ends."""
        answer = yield hold_shot(self.agent, self.event, *seats, cart=f"cart-{this.number}", user_id=this.owner,
                                 ttl_seconds=2 + self.seconds)
        this.holds.append(answer.expect(201).json)

    def owner(self, this):
        user = Client(self.maker, self.agent.org, this.owner)
        yield pause(this.number / A_SECOND)
        yield from self.prepare(self, user, this)
        self.prepared += 1
        while not self.open:
            yield pause(0.02)
        a_shot = self.act(user.at(self.nodes[this.number % len(self.nodes)]), this)
        yield from self.aim.wait(this.end_s)
        asked_s = time.time()
        answer = yield a_shot
        this.answered_s = time.time()
        this.answer = answer
        self.aim.took(this.answered_s - asked_s)
        self.aim.learn(in_time=answer.status < 300)

    def rival(self, this, which):
        node = self.nodes[(this.number + which) % len(self.nodes)]
        user = Client(node, self.agent.org, f"rival-{this.number}-{which}")
        order = this.seats[::1 if which else -1]
        while not self.open:
            yield pause(0.02)
        yield pause(max(0.0, this.end_s - RIVALS_EARLY_S - time.time()))
        last_look = False
        while not last_look:
            last_look = this.answer is not None and (
                not this.owner_lost() or len(this.taken) == len(order) or
                time.time() > this.answered_s + PATIENCE_S)
            for seat_id in order:
                if seat_id not in this.taken:
                    yield from self.try_seat(user, this, seat_id)
            yield pause(0.0 if time.time() < this.end_s + 0.02 else 0.02)

    def try_seat(self, user, this, seat_id):
        asked_s = time.time()
        answer = yield hold_shot(user, self.event, seat_id, cart=seat_id)
        this.heard[said(answer)] += 1
        if answer.status != 201:
            this.refused.append((seat_id, asked_s, time.time()))
        else:
            assert seat_id not in this.taken, f"{seat_id}: {this.taken[seat_id]} and {answer!r}"
            this.taken[seat_id] = answer.json["hold_id"]

    def conductor(self, before):
        while self.prepared < len(self.rounds):
            yield pause(0.01)
        if before:
            before()
        self.open = True

    def run(self, before=None):
        """`before` is called when all is prepared, and nothing is over yet."""
        print(f"seed {self.seed}")
        actors = [self.conductor(before)] if self.prepare else []
        for this in self.rounds:
            actors += [self.owner(this), self.rival(this, 0), self.rival(this, 1)]
        drive(actors, timeout=60 + 3 * self.seconds)
        return self.rounds


class Stories:
    """What became of each seat, read once for all rounds."""

    def __init__(self, db, org, event):
        self.rows = {row.seat_id: row for row in query(db, """
            SELECT seat_id, status::text, hold_id::text, user_id, held_until, in_payment FROM seats
            WHERE org_id = %s AND event_id = %s""", org, event)}
        self.entries = collections.defaultdict(list)
        for row in query(db, """
                SELECT seat_id, action::text, hold_id::text, user_id, at, held_until, reason FROM audit_log
                WHERE org_id = %s AND event_id = %s AND seat_id IS NOT NULL ORDER BY version""", org, event):
            self.entries[row.seat_id].append(row)
        self.lines = collections.defaultdict(list)
        for row in query(db, """
                SELECT hold_id::text, seat_id, status::text, held_until, checkout_id::text, price FROM seat_holds
                WHERE org_id = %s AND event_id = %s ORDER BY line""", org, event):
            self.lines[row.hold_id].append(row)
        self.checkouts = query(db, """
            SELECT checkout_id::text, status, amount, user_id, hold_ids::text[], intent_id::text FROM checkouts
            WHERE org_id = %s AND event_id = %s""", org, event)

    def actions(self, seat_id):
        return [entry.action for entry in self.entries[seat_id]]

    def checkouts_of(self, user):
        return [row for row in self.checkouts if row.user_id == user]


def assert_rivals_have(this, stories, keeps=()):
    """Every seat that the owner doesn't keep: he had it, it ended, a rival holds it and was told so."""
    owned = {hold["hold_id"] for hold in this.holds}
    for seat_id in this.seats:
        if seat_id in keeps:
            continue
        assert seat_id in this.taken, f"neither had {seat_id} after {this.answer!r}: {this.heard}"
        hold_id = this.taken[seat_id]
        row, entries = stories.rows[seat_id], stories.entries[seat_id]
        assert (row.status, row.hold_id) == ("held", hold_id), row
        *_, last, released, held = entries
        assert (released.action, released.reason) == ("seat_released", "ttl_expired") and released.hold_id in owned
        assert released.at >= last.held_until, entries
        assert (held.action, held.hold_id) == ("seat_held", hold_id)
        late = [asked_s - this.free_by(seat_id) + SOON_S for refused, asked_s, answered_s in this.refused
                if refused == seat_id and asked_s > this.free_by(seat_id) and answered_s < held.at.timestamp()]
        assert not late, f"{seat_id} was nobody's, and refused {max(late):.3f} s after it was over"
    for hold in this.holds:
        for line in stories.lines[hold["hold_id"]]:
            if line.seat_id not in keeps:
                assert line.status == "expired", line


def assert_rivals_have_none(this, seats):
    assert not set(this.taken) & set(seats), f"both: {this.answer!r} and {this.taken}"
    assert set(this.heard) <= {(201, None), (409, "seat_taken"), (409, "seat_sold"), (409, "seat_contended")}, this.heard


def both_ways(trial, told):
    """Trials, each the answers of its rounds, until the race has gone either way: where the machine stands still for a
    second, all of one trial end alike."""
    seen = collections.Counter()
    for _ in range(TRIALS):
        answers = [said(this.answer) for this in trial()]
        seen.update(answers)
        assert set(seen) <= told, seen
        if min(seen[each] for each in told) >= len(answers) // 50:
            return
    raise AssertionError(f"it was no race: {seen}")


# --- the start at the end of the hold: 14:59 -----------------------------------------------------------------------


def one_hold(edge, _, this):
    yield from edge.hold(this, *this.seats)
    this.end_s = seconds_of(this.holds[0]["expires_at"])


def two_holds(edge, _, this):
    """Their ends differ by milliseconds; whichever is over makes the whole fail."""
    yield from edge.hold(this, *this.seats[:1])
    yield from edge.hold(this, *this.seats[1:])
    this.end_s = min(seconds_of(hold["expires_at"]) for hold in this.holds)


def start_named(edge_user, this):
    return start_shot(edge_user, this.holds[0]["event_id"], [hold["hold_id"] for hold in this.holds])


def assert_started(this, stories):
    """Every seat of every hold, for its new time."""
    told = this.answer.json
    assert told["status"] == "open"
    assert {hold["hold_id"] for hold in told["holds"]} == {hold["hold_id"] for hold in this.holds}
    assert told["amount"] == PRICE * SEATS_EACH and told["currency"] == "USD"
    for before, hold in ((next(h for h in this.holds if h["hold_id"] == hold["hold_id"]), hold)
                         for hold in told["holds"]):
        seats = {each["seat_id"]: each["version"] for each in hold["seats"]}
        assert set(seats) == {each["seat_id"] for each in before["seats"]}
        assert time_of(hold["expires_at"]) - time_of(before["expires_at"]) == datetime.timedelta(seconds=EXTENDED_S)
        for seat_id in seats:
            row, entries = stories.rows[seat_id], stories.entries[seat_id]
            assert (row.status, row.hold_id, row.user_id) == ("held", hold["hold_id"], this.owner), row
            assert abs(row.held_until - time_of(hold["expires_at"])) < datetime.timedelta(milliseconds=1)
            *_, held, extended = entries
            assert (held.action, extended.action) == ("seat_held", "hold_extended"), entries
            assert extended.at < held.held_until, "extended after its end"
        for line in stories.lines[hold["hold_id"]]:
            assert (line.status, line.checkout_id) == ("active", told["checkout_id"]), line
    assert_rivals_have_none(this, this.seats)
    [row] = stories.checkouts_of(this.owner)
    assert (row.checkout_id, row.status, row.amount) == (told["checkout_id"], "open", told["amount"])


@pytest.mark.parametrize("sweeps", [True, False], ids=["timers end it", "rivals alone end it"])
@pytest.mark.parametrize("prepare", [one_hold, two_holds])
def test_a_checkout_started_at_the_end_has_every_seat_or_none(
        sweeps, prepare, start_node, admin, db, org, check_audit, check_verify):
    settings = NODE_SETTINGS | ({} if sweeps else NOBODY_SWEEPS)
    maker, *nodes = [start_node(**settings) for _ in range(2 if sweeps else 3)]
    nodes = [maker, *nodes] if sweeps else nodes
    count = EDGES // 4  # of four kinds

    def trial():
        maker.resume()
        event = admin.make_event(priced(count * SEATS_EACH), policy={
            "hold_ttl": 300, "extend_by": EXTENDED_S, "max_hold": 3600})
        edge = Edge(admin, event, maker, nodes, count, prepare, start_named)
        rounds = edge.run(before=None if sweeps else maker.pause)
        stories = Stories(db, org, event)
        for this in rounds:
            if this.answer.status == 201:
                assert_started(this, stories)
            else:
                this.answer.expect(409, "hold_expired")
                assert not stories.checkouts_of(this.owner)
                assert all("hold_extended" not in stories.actions(seat_id) for seat_id in this.seats)
                assert_rivals_have(this, stories)
        check_audit(event)
        return rounds

    both_ways(trial, {(201, None), (409, "hold_expired")})
    check_verify(nodes[0])


# --- the payment at the end of the checkout ------------------------------------------------------------------------


def open_checkout(edge, user, this):
    yield from edge.hold(this, *this.seats)
    answer = yield start_shot(user, edge.event, [this.holds[0]["hold_id"]])
    this.checkout = answer.expect(201).json
    this.end_s = seconds_of(this.checkout["expires_at"])


def assert_completed(this, stories, db):
    assert this.answer.json["status"] == "completed"
    tickets = this.answer.json["tickets"]
    assert sorted(ticket["seat_id"] for ticket in tickets) == sorted(this.seats)
    assert len({ticket["ticket_id"] for ticket in tickets}) == SEATS_EACH
    for seat_id in this.seats:
        row = stories.rows[seat_id]
        assert (row.status, row.user_id, row.in_payment) == ("sold", this.owner, False), row
    assert_rivals_have_none(this, this.seats)
    [row] = stories.checkouts_of(this.owner)
    assert row.status == "completed" and intent_status(db, row.intent_id) == "succeeded"


@pytest.mark.parametrize("sweeps", [True, False], ids=["timers end it", "rivals alone end it"])
def test_a_checkout_completed_at_its_end_is_sold_whole_or_not_at_all(
        sweeps, start_node, admin, db, org, check_audit, check_verify):
    settings = NODE_SETTINGS | ({} if sweeps else NOBODY_SWEEPS)
    maker, *nodes = [start_node(**settings) for _ in range(2 if sweeps else 3)]
    nodes = [maker, *nodes] if sweeps else nodes
    count = OTHER_EDGES // 2

    def trial():
        maker.resume()
        event = admin.make_event(priced(count * SEATS_EACH), policy={"hold_ttl": 300, "extend_by": 1, "max_hold": 3600})
        edge = Edge(admin, event, maker, nodes, count, open_checkout,
                    lambda user, this: complete_shot(user, this.checkout))
        rounds = edge.run(before=None if sweeps else maker.pause)
        stories = Stories(db, org, event)
        for this in rounds:
            if this.answer.status == 200:
                assert_completed(this, stories, db)
            else:
                this.answer.expect(409, "hold_expired")
                assert all("seat_sold" not in stories.actions(seat_id) for seat_id in this.seats)
                assert_rivals_have(this, stories)
        assert not in_payment(db, org, event)
        assert outbox(db, org, event).count("checkout.completed") == sum(this.answer.status == 200 for this in rounds)
        check_audit(event)
        return rounds

    both_ways(trial, {(200, None), (409, "hold_expired")})
    check_verify(nodes[0])


# --- success beside the sweep of payment_timeout -------------------------------------------------------------------


PAYMENT_TIMEOUT_S = 2
SWEPT_WITHIN_S = 2.0


# What some of ten rounds don't leave to chance: when the provider's word comes. Those of an even number have a rival.
SURE = {1: "at once", 5: "when it is swept", 0: "when the rival has it"}


class SweepEdge(Edge):
    """The provider's word comes, twice, somewhere between the end of payment_timeout and the sweep behind it."""

    def word(self, this, user):
        """Until it comes."""
        sure = SURE.get(this.number % 10)
        if sure is None:
            spread = random.Random(f"{self.seed}/{this.number}").uniform(-0.2, SWEPT_WITHIN_S)
            yield pause(PAYMENT_TIMEOUT_S + spread)
        while sure == "when the rival has it" and not this.taken:
            yield pause(0.05)
        while sure == "when it is swept":
            answer = yield shot(user, "GET", f"/api/events/{self.event}/seats/{this.seats[0]}")
            if answer.expect(200).json["status"] == "available":
                return
            yield pause(0.05)

    def owner(self, this):
        user = Client(self.maker, self.agent.org, this.owner)
        yield pause(this.number / A_SECOND)
        answer = yield hold_shot(user, self.event, *this.seats)
        answer = yield start_shot(user, self.event, [answer.expect(201).json["hold_id"]])
        this.checkout = answer.expect(201).json
        answer = yield complete_shot(user, this.checkout, "tok_pending")
        this.intent_id = answer.expect(202).json["payment_intent_id"]
        yield from self.word(this, user)
        this.answers = yield [webhook_shot(node, this.intent_id, "succeeded", f"key-{this.number}-{n}")
                              for n, node in enumerate(self.nodes)]
        this.answered_s = time.time()
        this.answer = this.answers[0]

    def rival(self, this, which):
        """Some rounds have one, who may take a seat between the sweep and the success."""
        if this.number % 2 or which:
            return
        user = Client(self.nodes[0], self.agent.org, f"rival-{this.number}")
        while this.checkout is None:
            yield pause(0.1)
        while this.answer is None and not this.taken:
            yield from self.try_seat(user, this, this.seats[1])
            yield pause(0.03)


def test_a_success_beside_the_sweep_is_a_sale_or_a_refund_and_never_both(
        start_node, admin, db, org, check_audit, check_verify):
    nodes = [start_node(**NODE_SETTINGS) for _ in range(2)]
    count = OTHER_EDGES
    event = admin.make_event(priced(count * SEATS_EACH), policy={
        "hold_ttl": 300, "extend_by": 300, "max_hold": 3600, "payment_timeout": PAYMENT_TIMEOUT_S})
    edge = SweepEdge(admin, event, nodes[0], nodes, count, None, None)
    rounds = edge.run()
    stories, seen = Stories(db, org, event), collections.Counter()
    for this in rounds:
        statuses = {answer.expect(200).json["status"] for answer in this.answers}
        [row] = stories.checkouts_of(this.owner)
        status = intent_status(db, this.intent_id)
        assert statuses == {status}, (this.answers, status)
        sold_to = {stories.rows[seat_id].user_id for seat_id in this.seats if stories.rows[seat_id].status == "sold"}
        late = any("seat_released" in stories.actions(seat_id) for seat_id in this.seats)
        if status == "succeeded":
            assert row.status == "completed" and sold_to == {this.owner}
            assert all(stories.rows[seat_id].user_id == this.owner for seat_id in this.seats)
            assert_rivals_have_none(this, this.seats)
        else:
            assert status == "refund_required" and late, status
            assert not sold_to and this.taken, f"a refund, and nobody has anything of {this.seats}"
            assert [stories.rows[seat_id].status for seat_id in this.seats] == ["available", "held", "available"]
        seen[status, late] += 1
    assert seen["succeeded", False] and seen["succeeded", True] and seen["refund_required", True], seen
    told = outbox(db, org, event, "checkout.completed", "payment.refund_required")
    assert collections.Counter(told) == {
        "checkout.completed": seen["succeeded", False] + seen["succeeded", True],
        "payment.refund_required": seen["refund_required", True]}
    assert all(len(sales) == 1 for sales in sales_of(db, org, event).values())
    assert all(len(tickets) == 1 for tickets in tickets_of(db, org, event).values())
    assert not in_payment(db, org, event)
    check_audit(event)
    check_verify(nodes[0])


# --- two changes meet at one checkout ------------------------------------------------------------------------------


Pair = collections.namedtuple("Pair", "user seats hold checkout one other")  # the last two: answers


def pairs(admin, event, nodes, changes, begin=True, held=2, rounds=PAIRS):
    """`rounds` rounds on LANES lanes: a hold of two seats (of `held` of them), a checkout if `begin`, then
    changes(user, here, there, hold, checkout, seats) -> two shots. Which goes to which node, and which first, changes."""
    def lane(number):
        user, done = admin.as_user(f"owner-{number}"), []
        for index in range(number, rounds, LANES):
            seats = [f"A-{2 * index + 1}", f"A-{2 * index + 2}"]
            here, there = nodes[::1 if index % 4 < 2 else -1]
            answer = yield hold_shot(user.at(here), event, *seats[:held], cart=f"cart-{index}")
            hold, checkout = answer.expect(201).json, None
            if begin:
                answer = yield start_shot(user.at(there), event, [hold["hold_id"]])
                checkout = answer.expect(201).json
            shots = changes(user, here, there, hold, checkout, seats)
            answers = yield shots[::1 if index % 2 else -1]
            done.append(Pair(user.user, seats, hold, checkout, *answers[::1 if index % 2 else -1]))
        return done

    return [each for done in drive([lane(number) for number in range(LANES)], timeout=180) for each in done]


PAIR_POLICY = {"hold_ttl": 300, "extend_by": 10, "max_hold": 3600}


@pytest.fixture
def pair_event(admin):
    return admin.make_event(priced(2 * PAIRS), policy=PAIR_POLICY)


def statuses(table, seats):
    return [table[seat_id][0] for seat_id in seats]


def checkout_status(db, checkout):
    [(status,)] = all_rows(db, "SELECT status FROM checkouts WHERE checkout_id = %s", (checkout["checkout_id"],))
    return status


def released_or_sold(db, org, event, done, refusals, released, released_checkout, reason):
    """`one` is the release, `other` the payment: exactly one of them had the seats."""
    table, seen = seats_of(db, org, event), collections.Counter()
    for each in done:
        seen[said(each.one), said(each.other)] += 1
        if each.other.status == 200:
            assert each.other.json["status"] == "completed"
            assert statuses(table, each.seats) == ["sold", "sold"]
            assert {table[seat_id][2] for seat_id in each.seats} == {each.user}
            assert refusals(each), f"{each.one!r} beside the sale {each.other!r}"
            assert checkout_status(db, each.checkout) == "completed"
        else:
            each.other.expect(409, "hold_not_active")
            assert statuses(table, each.seats) == ["available", "available"], each
            assert released(each), each.one
            assert checkout_status(db, each.checkout) in released_checkout
            assert reasons_of(db, each.hold) == {reason}
    assert not in_payment(db, org, event)
    assert {each.other.status for each in done} == {200, 409}, f"they never met: {seen}"
    assert outbox(db, org, event).count("checkout.completed") == sum(each.other.status == 200 for each in done)


def reasons_of(db, hold):
    return {reason for reason, in all_rows(db, "SELECT reason FROM seat_holds WHERE hold_id = %s", (hold["hold_id"],))}


def test_cancel_beside_complete(nodes, admin, pair_event, db, org, prove):
    done = pairs(admin, pair_event, nodes, lambda user, here, there, hold, checkout, seats: [
        cancel_shot(user.at(here), checkout), complete_shot(user.at(there), checkout)])
    released_or_sold(
        db, org, pair_event, done, lambda each: said(each.one) in {(409, "payment_in_flight"), (409, "hold_not_active")},
        lambda each: each.one.status == 200 and sorted(s["seat_id"] for s in each.one.json["released_seats"]) == sorted(each.seats),
        {"cancelled"}, "user_cancelled")
    prove(pair_event)


def test_deleting_the_hold_beside_complete(nodes, admin, pair_event, db, org, prove):
    done = pairs(admin, pair_event, nodes, lambda user, here, there, hold, checkout, seats: [
        shot(user.at(here), "DELETE", f"/api/holds/{hold['hold_id']}"), complete_shot(user.at(there), checkout)])
    released_or_sold(
        db, org, pair_event, done, lambda each: said(each.one) in {(409, "payment_in_flight"), (409, "hold_not_active")},
        lambda each: each.one.status == 200 and each.one.json["status"] == "cancelled",
        {"open", "cancelled", "failed"}, "user_cancelled")
    prove(pair_event)


def test_admin_release_beside_complete(nodes, admin, pair_event, db, org, prove):
    done = pairs(admin, pair_event, nodes, lambda user, here, there, hold, checkout, seats: [
        release_shot(admin.at(here), hold_ids=[hold["hold_id"]]), complete_shot(user.at(there), checkout)])
    released_or_sold(
        db, org, pair_event, done,
        lambda each: each.one.status == 200 and each.one.json["seats_released"] == 0 and
        [skipped["hold_id"] for skipped in each.one.json["skipped"]] == [each.hold["hold_id"]],
        lambda each: each.one.status == 200 and each.one.json["seats_released"] == 2 and each.one.json["skipped"] == [],
        {"open", "cancelled", "failed"}, "admin_override")
    prove(pair_event)


def test_two_completes_are_one_payment(nodes, admin, pair_event, db, org, prove):
    """Also beside a declined card: whoever comes first decides, and is charged once."""
    done = pairs(admin, pair_event, nodes, lambda user, here, there, hold, checkout, seats: [
        complete_shot(user.at(here), checkout), complete_shot(user.at(there), checkout)])
    for each in done:
        answers = {said(each.one): each.one.json, said(each.other): each.other.json}
        assert set(answers) <= {(200, None), (202, None)} and (200, None) in answers, (each.one, each.other)
        if each.one.status == each.other.status:
            assert each.one.json == each.other.json
    intents = dict(all_rows(db, """
        SELECT subject_id::text, count(*) FROM payment_intents WHERE org_id = %s GROUP BY 1""", (org,)))
    assert intents == {each.checkout["checkout_id"]: 1 for each in done}
    assert set(statuses(seats_of(db, org, pair_event), [f"A-{n + 1}" for n in range(2 * PAIRS)])) == {"sold"}
    assert outbox(db, org, pair_event).count("checkout.completed") == len(done)
    prove(pair_event)


def test_complete_with_a_good_and_with_a_bad_card_at_once(nodes, admin, pair_event, db, org, prove):
    done = pairs(admin, pair_event, nodes, lambda user, here, there, hold, checkout, seats: [
        complete_shot(user.at(here), checkout, "tok_ok"), complete_shot(user.at(there), checkout, "tok_declined")])
    table, seen = seats_of(db, org, pair_event), collections.Counter()
    for each in done:
        seen[said(each.one), said(each.other)] += 1
        status = checkout_status(db, each.checkout)
        if status == "completed":
            assert statuses(table, each.seats) == ["sold", "sold"]
            assert {said(each.one), said(each.other)} <= {(200, None), (202, None)}, each
        else:
            assert status == "failed" and statuses(table, each.seats) == ["available", "available"]
            assert said(each.other) in {(402, "payment_failed"), (202, None), (409, "hold_not_active")}, each.other
            assert said(each.one) in {(402, "payment_failed"), (202, None), (409, "hold_not_active")}, each.one
    assert {each.one.status == 200 for each in done} == {True, False}, seen
    assert not in_payment(db, org, pair_event)
    prove(pair_event)


# --- changes of the hold beside the start --------------------------------------------------------------------------


def test_deleting_the_hold_beside_start(nodes, admin, pair_event, db, org, prove):
    done = pairs(admin, pair_event, nodes, lambda user, here, there, hold, checkout, seats: [
        shot(user.at(here), "DELETE", f"/api/holds/{hold['hold_id']}"),
        start_shot(user.at(there), pair_event, [hold["hold_id"]])], begin=False)
    table = seats_of(db, org, pair_event)
    for each in done:
        assert said(each.one) == (200, None), each.one
        assert said(each.other) in {(201, None), (409, "hold_not_active")}, each.other
        assert statuses(table, each.seats) == ["available", "available"]
    assert {each.other.status for each in done} == {201, 409}, "they never met"
    for each in done:  # a checkout of nothing sells nothing
        if each.other.status == 201:
            complete = admin.as_user(each.user).post(
                f"/api/checkouts/{each.other.json['checkout_id']}/complete", {"payment_method": "tok_ok"})
            complete.expect(409, "hold_not_active")
            break
    prove(pair_event)


def test_adding_a_seat_beside_start_and_what_is_sold_is_what_is_paid(nodes, admin, pair_event, db, org, prove):
    done = pairs(admin, pair_event, nodes, lambda user, here, there, hold, checkout, seats: [
        shot(user.at(here), "PATCH", f"/api/holds/{hold['hold_id']}", {"add_seat_ids": seats[1:]}),
        start_shot(user.at(there), pair_event, [hold["hold_id"]])], begin=False, held=1)
    rows = {row.seat_id: row for row in query(db, """
        SELECT seat_id, status::text, held_until, hold_id::text FROM seats WHERE org_id = %s AND event_id = %s""",
                                              org, pair_event)}
    for each in done:
        assert said(each.other) == (201, None), each.other
        assert said(each.one) in {(200, None), (409, "seat_contended")}, each.one
        both = each.one.status == 200
        assert [rows[seat_id].status for seat_id in each.seats] == ["held", "held" if both else "available"]
        assert not both or rows[each.seats[0]].held_until == rows[each.seats[1]].held_until, "one end for all of a hold"
    owners = [admin.as_user(each.user).at(nodes[index % 2]) for index, each in enumerate(done)]
    answers = drive([one_complete(owner, each.other.json) for owner, each in zip(owners, done)], timeout=120)
    for answer, each in zip(answers, done):
        assert answer.status == 200, answer
    assert_paid_is_sold(db, org)
    prove(pair_event)


def one_complete(user, checkout):
    answer = yield complete_shot(user, checkout)
    return answer


def assert_paid_is_sold(db, org):
    wrong = query(db, """
        SELECT c.checkout_id, i.amount, sum(h.price * h.quantity) AS sold
        FROM checkouts c JOIN payment_intents i ON i.intent_id = c.intent_id
        JOIN seat_holds h ON h.hold_id = ANY(c.hold_ids) AND h.status = 'converted'
        WHERE c.org_id = %s AND c.status = 'completed' GROUP BY 1, 2 HAVING i.amount <> sum(h.price * h.quantity)""",
                  org)
    assert not wrong, f"{len(wrong)} checkouts were charged another amount than was sold: {wrong[:3]}"


def test_transfer_beside_start_sells_nothing_to_who_gave_it_away(nodes, admin, pair_event, db, org, prove):
    done = pairs(admin, pair_event, nodes, lambda user, here, there, hold, checkout, seats: [
        shot(user.at(here), "POST", f"/api/holds/{hold['hold_id']}/transfer", {"to_user_id": f"heir-of-{user.user}"}),
        start_shot(user.at(there), pair_event, [hold["hold_id"]])], begin=False)
    table = seats_of(db, org, pair_event)
    for each in done:
        assert said(each.one) == (200, None), each.one
        assert said(each.other) in {(201, None), (403, "not_hold_owner"), (404, "hold_not_found")}, each.other
        assert {table[seat_id] for seat_id in each.seats} == {("held", each.hold["hold_id"], f"heir-of-{each.user}")}
    assert len({each.other.status for each in done}) == 2, "they never met"
    begun = [each for each in done if each.other.status == 201]
    owners = [admin.as_user(each.user).at(nodes[index % 2]) for index, each in enumerate(begun)]
    answers = drive([one_complete(owner, each.other.json) for owner, each in zip(owners, begun)], timeout=120)
    assert {answer.status for answer in answers} <= {403, 404, 409}, answers[:3]
    assert not in_payment(db, org, pair_event)
    assert seats_of(db, org, pair_event) == table, "what was given away stays with the heir"
    prove(pair_event)


def test_two_starts_of_one_hold(nodes, admin, pair_event, db, org, prove):
    """Each extends; the hold knows the newest, and is sold once however many checkouts name it."""
    done = pairs(admin, pair_event, nodes, lambda user, here, there, hold, checkout, seats: [
        start_shot(user.at(here), pair_event, [hold["hold_id"]]),
        start_shot(user.at(there), pair_event, [hold["hold_id"]])], begin=False)
    answers = drive([two_completes(admin.as_user(each.user), nodes, each) for each in done], timeout=120)
    table = seats_of(db, org, pair_event)
    for each, completed in zip(done, answers):
        assert (said(each.one), said(each.other)) == ((201, None), (201, None)), each
        assert 200 in {answer.status for answer in completed}, completed
        assert {said(answer) for answer in completed} <= {
            (200, None), (202, None), (409, "hold_not_active"), (409, "payment_in_flight")}, completed
        assert statuses(table, each.seats) == ["sold", "sold"]
    assert all(len(sales) == 1 for sales in sales_of(db, org, pair_event).values())
    [(paid,)] = all_rows(db, """SELECT count(*) FROM payment_intents WHERE org_id = %s AND status = 'succeeded'""", (org,))
    assert paid == len(done), "a hold was paid for twice"
    prove(pair_event)


def two_completes(user, nodes, each):
    answers = yield [complete_shot(user.at(node), answer.json) for node, answer in zip(nodes, (each.one, each.other))]
    return answers
