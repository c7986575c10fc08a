#!/usr/bin/python3
"""history_checker.py HISTORY --database-url URL: were clients told the truth?

HISTORY is what clients of a run asked and were answered, one JSON object a line:

    {"kind": "run", "org", "request_timeout_s", "wall_minus_mono"}                                       the first line
    {"kind": "call", "rid", "user", "node", "op", "begin", "end", ...what was asked, ...what was answered}
        asked:     event, seats, areas {area: quantity}, cart, key, hold, add, remove, to, checkout, intent
        answered:  status, code, tier, by, stale, body; all missing where no answer came
    {"kind": "fault", "name", "target", "begin", "end", "trouble"}        "trouble": it could not be done or ended
    {"kind": "finding", "what", "detail"}                                what the run itself saw to be wrong
    {"kind": "quiet"}                   from here on "final_hold" calls must have got each seat that isn't sold

begin and end are seconds of one monotonic clock. Each call sent its rid as X-Request-Id, which the audit log keeps: so
each change in Postgres has the call that made it. Written against the tables and the contract alone; shares no code
with the server. Prints each violation with the lines of history that matter; exit status 1 if there is any, 2 for a
usage error.
"""

import argparse
import bisect
import collections
import datetime
import json
import sys
import types

import psycopg2

PAYMENT_MARKS = {"payment_started", "payment_stopped"}
HELD_ACTIONS = {"seat_held", "hold_extended", "hold_changed", "hold_transferred"} | PAYMENT_MARKS
ASKED_ACTIONS = HELD_ACTIONS | {"seat_sold", "seat_released"}
# What each kind of call may change.
ACTIONS_OF = {
    "hold": {"seat_held", "hold_changed"}, "final_hold": {"seat_held"}, "extend": {"hold_extended"},
    "confirm": {"seat_sold", "seat_released"}, "return": {"seat_released"}, "cancel": {"seat_released"},
    "remove": {"seat_released", "hold_changed"},
    "patch": {"seat_held", "seat_released", "hold_changed"}, "transfer": {"hold_transferred"},
    "checkout_start": {"hold_extended"}, "checkout_cancel": {"seat_released"}, "admin_release": {"seat_released"},
    "complete": {"seat_held", "seat_sold", "seat_released"} | PAYMENT_MARKS,
    "webhook": {"seat_held", "seat_sold", "seat_released"},
}
# What may stand of a call that was refused: it says itself that it was tried.
DONE_THOUGH_REFUSED = {
    ("complete", "payment_failed"): {"payment_started", "seat_released"},
    ("complete", "payment_unavailable"): PAYMENT_MARKS,
}
# Why what was sold may be released: whoever has it returns it, or what they buy takes its place.
GIVES_BACK = {"user_cancelled", "replaced"}
# How a payment may end by a node's own asking, without a request: (action, reason).
SETTLED_BY_NODES = {("seat_sold", None), ("seat_held", None), ("seat_released", "payment_failed")}
# These end the holds of others, who hear of it later.
OPS_THAT_END = {"admin_release", "webhook", "complete", "checkout_cancel"}

# A request has its answer after request_timeout; so much more on a machine where everything runs at once.
LATE_S = 2.0
# "A stale 'taken' lasts at most a second or two", and so may what another node's memory shows.
STALE_S = 3.0
# For a change whose call was never told of it: how long after its judgement it may have been committed.
COMMIT_LATE_S = 15.0
# How long after a jump of its own clock a node may be wrong about Postgres': it believes the fastest of 8 readings.
CLOCK_LEARNT_S = 10.0
# Clocks of clients and Postgres are the same machine's; told times are cut to milliseconds.
TICK_S = 0.002

SHOWN_OF_A_KIND = 10

Violation = collections.namedtuple("Violation", "kind detail lines")
Change = collections.namedtuple(
    "Change", "id event seat area version action hold user at_us until_us reason quantity rid")
Line = collections.namedtuple(
    "Line", "event seat area hold user status until_us quantity price tickets checkout in_payment")
SeatRow = collections.namedtuple("SeatRow", "event seat status hold user version")
AreaRow = collections.namedtuple("AreaRow", "event area capacity held sold")
Checkout = collections.namedtuple("Checkout", "id event user status intent holds")
Intent = collections.namedtuple("Intent", "id checkout user status amount")


class Call(types.SimpleNamespace):
    """One request with its answer; what a line doesn't have is None."""

    def __getattr__(self, name):
        return None

    @property
    def outcome(self):
        """done | refused | unknown"""
        if self.status is None or (self.status == 503 and self.code == "outcome_unknown"):
            return "unknown"
        return "done" if self.status < 300 else "refused"

    def holds(self):
        """The holds that its answer tells of."""
        if self.outcome != "done" or not isinstance(self.body, dict) or self.op == "admin_release":
            return []
        if "holds" in self.body:
            return self.body["holds"]
        return [self.body] if "hold_id" in self.body else []


# --- reading -------------------------------------------------------------------------------------------------


class History:
    """The lines of the file, by kind."""

    def __init__(self, lines):
        self.run, self.calls, self.faults, self.findings, self.quiet = None, [], [], [], False
        for text in lines:
            line = json.loads(text)
            kind = line.pop("kind")
            if kind == "run":
                self.run = Call(**line)
            elif kind == "call":
                self.calls.append(Call(**line, line=text.rstrip("\n")))
            elif kind == "fault":
                self.faults.append(Call(**line, line=text.rstrip("\n")))
            elif kind == "finding":
                self.findings.append(Call(**line, line=text.rstrip("\n")))
            elif kind == "quiet":
                self.quiet = True
        self.by_rid = {call.rid: call for call in self.calls}
        self.by_key = collections.defaultdict(list)  # (user, key) -> calls
        for call in self.calls:
            if call.key is not None:
                self.by_key[call.user, call.key].append(call)

    def attempts(self, call):
        """The calls that are one and the same request: those with its key, or itself alone."""
        return self.by_key[call.user, call.key] if call.key is not None else [call]

    def clock_moved(self, call):
        """Whether its node may have been wrong about what time Postgres has."""
        return any(fault.name == "clock_jumps" and fault.target == f"{call.node}'s clock" and
                   fault.begin <= call.end and fault.end + CLOCK_LEARNT_S >= call.begin for fault in self.faults)

    def mono(self, time_us):
        """A time of Postgres on the clients' clock."""
        return time_us / 1e6 - self.run.wall_minus_mono


class Tables:
    """What Postgres says at the end."""

    def __init__(self, cursor, org):
        def rows(kind, query):
            cursor.execute(query, (org,))
            return [kind._make(row) for row in cursor.fetchall()]

        self.changes = rows(Change, f"""
            SELECT id, event_id, seat_id, area_id, version, action::text, hold_id::text, user_id, {us('at')},
                   {us('held_until')}, reason, quantity, request_id
            FROM audit_log WHERE org_id = %s AND (seat_id IS NOT NULL OR area_id IS NOT NULL) ORDER BY version, id""")
        self.lines = rows(Line, f"""
            SELECT event_id, seat_id, area_id, hold_id::text, user_id, status::text, {us('held_until')}, quantity,
                   coalesce(price, 0), ticket_ids::text[], checkout_id::text, in_payment
            FROM seat_holds WHERE org_id = %s""")
        self.seats = rows(SeatRow, """
            SELECT event_id, seat_id, status::text, hold_id::text, user_id, version FROM seats WHERE org_id = %s""")
        self.areas = rows(AreaRow, """
            SELECT event_id, area_id, capacity, held, sold FROM areas WHERE org_id = %s""")
        self.checkouts = {row.id: row for row in rows(Checkout, """
            SELECT checkout_id::text, event_id, user_id, status, intent_id::text, hold_ids::text[] FROM checkouts
            WHERE org_id = %s""")}
        self.intents = {row.id: row for row in rows(Intent, """
            SELECT intent_id::text, subject_id::text, user_id, status, amount FROM payment_intents
            WHERE org_id = %s""")}
        self._index()

    def _index(self):
        self.by_version = {(c.event, c.seat, c.version): c for c in self.changes if c.seat}
        self.by_rid = grouped(self.changes, lambda c: c.rid)
        self.by_seat = grouped((c for c in self.changes if c.seat), lambda c: (c.event, c.seat))
        self.by_area_hold = grouped((c for c in self.changes if c.area), lambda c: (c.event, c.area, c.hold))
        self.by_hold = grouped(self.changes, lambda c: c.hold)
        self.lines_of = grouped(self.lines, lambda line: line.hold)
        # A line that was added to a hold after its checkout was begun names none, and is in it all the same.
        of_hold = {hold: row.id for _, row in sorted(self.checkouts.items()) for hold in row.holds}
        self.lines_of_checkout = grouped(self.lines, lambda line: line.checkout or of_hold.get(line.hold))
        paid_for = {intent.checkout for intent in self.intents.values()}
        self.holds_of_payments = {hold for each in paid_for & self.checkouts.keys()
                                  for hold in self.checkouts[each].holds}
        self.holds_of_payments |= {line.hold for line in self.lines if line.checkout in paid_for}

    def replacement(self, change):
        """The sale that took the place of what this change gave back; None: there is none."""
        sales = (each for each in self.by_rid[change.rid] if each.action == "seat_sold")
        return next((sale for sale in sales if (sale.event, sale.user) == (change.event, change.user)
                     and sale.hold != change.hold), None)

    def given_back(self, sale):
        """The change by which what was sold was given back; None: it is still sold."""
        return next((change for change in self.by_hold[sale.hold] if gives_back(change) and
                     (change.event, change.seat, change.area) == (sale.event, sale.seat, sale.area)
                     and change.version > sale.version), None)

    def settled_by_a_node(self, change):
        """Whether this may be what a node made of the provider's word, which it had asked for by itself."""
        if change.rid is None and gives_back(change) and change.reason == "replaced":
            return self.replacement(change) is not None
        return change.rid is None and (change.action, change.reason) in SETTLED_BY_NODES \
            and change.hold in self.holds_of_payments


def gives_back(change):
    """Whether it frees what was sold: that has no end any more."""
    return change.action == "seat_released" and change.until_us is None


def was_sold(line):
    """Tickets stay in the rows, also of what was given back."""
    return line.status == "converted" or bool(line.tickets)


def us(column):
    return f"(extract(epoch FROM {column}) * 1000000)::bigint"


def grouped(items, key):
    groups = collections.defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def time_ms(text):
    told = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z")
    return round(told.timestamp() * 1000)


# --- answers that no client of ours should get ---------------------------------------------------------------


def check_findings(history, _):
    for finding in history.findings:
        yield Violation("finding", f"{finding.what}: {finding.detail}", [])
    for fault in history.faults:
        if fault.trouble:
            yield Violation("trouble", f"{fault.name} of {fault.target}: {fault.trouble}", [])


ABSURD = {400, 401, 402, 405, 411, 413, 414, 415, 429, 431, 500}


def check_answers(history, _):
    for call in history.calls:
        absurd = (call.status in ABSURD and (call.op, call.code) != ("complete", "payment_failed")) or \
            call.code in ("event_not_found", "event_closed", "checkout_not_found", "intent_not_found") or (
            # A seat that is to be given back may have been released by an administrator.
            call.code in ("seat_not_found", "area_not_found") and call.op != "remove" and not call.remove)
        if absurd:
            yield Violation("absurd_answer", f"{call.status} {call.code} to {call.op}", [call])
        if call.by is not None and call.by != call.node:
            yield Violation("wrong_node", f"{call.by} answered for {call.node}", [call])


def check_punctuality(history, _):
    """Nobody waits longer than request_timeout, but for the time in which the node itself was broken."""
    broken = grouped((f for f in history.faults if ">" not in f.target), lambda f: f.target.removesuffix("'s clock"))
    for call in history.calls:
        if call.op == "admin_release":
            continue  # it goes on until all are released
        took = call.end - call.begin
        limit = history.run.request_timeout_s + LATE_S
        if took <= limit:
            continue
        excused = sum(max(0.0, min(f.end, call.end) - max(f.begin, call.begin)) for f in broken[call.node])
        if took > limit + excused:
            yield Violation("late", f"{call.op} at {call.node} took {took:.1f} s", [call])


# --- what was told -------------------------------------------------------------------------------------------


def check_told(history, tables):
    """Each hold that a client heard of is in Postgres, as it was told."""
    for call in history.calls:
        for hold in call.holds():
            problem = told_problem(call, hold, history, tables)
            if problem:
                yield Violation(*problem, [call])


def told_problem(call, hold, history, tables):
    owner = call.to if call.op == "transfer" else call.user
    if hold["user_id"] != owner:
        return "foreign", f"{call.user} was told of the hold {hold['hold_id']} of {hold['user_id']}"
    if hold["status"] == "active":
        return active_problem(call, hold, history, tables)
    if hold["status"] == "converted":
        return converted_problem(hold, tables)
    if any(line.status in ("active", "converted") for line in tables.lines_of[hold["hold_id"]]):
        return "over_but_stands", f"{hold['hold_id']} was told to be {hold['status']}"
    return None


def active_problem(call, hold, history, tables):
    hold_id, ends_ms = hold["hold_id"], time_ms(hold["expires_at"])
    rids = {each.rid for each in history.attempts(call)}
    if not hold["seats"] and not hold["areas"]:
        return "told_without_row", f"{hold_id} is told to be active, and has nothing"
    for seat in hold["seats"]:
        change = tables.by_version.get((hold["event_id"], seat["seat_id"], seat["version"]))
        name = f"{seat['seat_id']} at version {seat['version']}"
        if change is None or not any(line.seat == seat["seat_id"] for line in tables.lines_of[hold_id]):
            return "told_without_row", f"{hold_id} has no {name}"
        if (change.hold, change.user) != (hold_id, hold["user_id"]) or change.action not in HELD_ACTIONS:
            return "told_otherwise", f"{hold_id} of {hold['user_id']}: {name} is {change}"
        if change.until_us // 1000 != ends_ms:
            return "told_other_time", f"{hold_id}: told {hold['expires_at']}, {name} is {change}"
        if call.status == 201 and change.rid not in rids and call.op != "checkout_start":
            return "told_otherwise", f"201 with {name}, which {change.rid} made"
    return area_problem(hold, tables, HELD_ACTIONS, ends_ms)


def area_problem(hold, tables, actions, ends_ms=None):
    for area in hold["areas"]:
        changes = tables.by_area_hold[hold["event_id"], area["area_id"], hold["hold_id"]]
        fitting = [c for c in changes if c.action in actions and c.quantity == area["quantity"]
                   and c.user == hold["user_id"]]
        if not fitting:
            return "told_without_row", f"{hold['hold_id']}: {area} is not among {changes}"
        if ends_ms is not None and not any(c.until_us // 1000 == ends_ms for c in fitting):
            return "told_other_time", f"{hold['hold_id']}: {area} until {hold['expires_at']} is not among {fitting}"
    return None


def converted_problem(hold, tables):
    for seat in hold["seats"]:
        change = tables.by_version.get((hold["event_id"], seat["seat_id"], seat["version"]))
        if change is None or (change.action, change.hold, change.user) != (
                "seat_sold", hold["hold_id"], hold["user_id"]):
            return "told_without_row", f"the sale of {seat} to {hold['user_id']} by {hold['hold_id']} is {change}"
        if change is not tables.by_seat[hold["event_id"], seat["seat_id"]][-1] and not tables.given_back(change):
            return "sale_lost", f"{seat} was sold by {hold['hold_id']}, and is not any more"
    units = len(hold["seats"]) + sum(area["quantity"] for area in hold["areas"])
    if len({ticket["ticket_id"] for ticket in hold.get("tickets", [])}) != units:
        return "told_otherwise", f"{units} units and other tickets in {hold['hold_id']}"
    return area_problem(hold, tables, {"seat_sold"})


def check_denials(history, tables):
    """Nobody hears that there is no such hold while Postgres has it, and it is his."""
    for call in history.calls:
        if call.code != "hold_not_found":
            continue
        lines, changes = tables.lines_of[call.hold], tables.by_hold[call.hold]
        stood = bool(changes) and history.mono(min(c.at_us for c in changes)) < call.begin - COMMIT_LATE_S
        owners = {line.user for line in lines} | {c.user for c in changes}
        if lines and stood and (call.op != "get_hold" or owners == {call.user}):
            yield Violation("denied", f"{call.hold} stood in Postgres", [call])


# --- what stands ---------------------------------------------------------------------------------------------


def check_stands(history, tables):
    """Each change was asked for by its user, and he was not told that it failed."""
    for change in tables.changes:
        if change.action not in ASKED_ACTIONS or change.reason == "ttl_expired":
            continue
        call = history.by_rid.get(change.rid)
        if call is None:
            if not tables.settled_by_a_node(change):
                yield Violation("unasked", f"{change}", [])
        elif call.outcome == "refused":
            done = DONE_THOUGH_REFUSED.get((call.op, call.code), ())
            if change.action not in done and not granted_in_vain(history, call, change):
                yield Violation("refused_but_stands", f"{change}", [call])
        else:
            problem = other_than_asked(call, change, tables)
            if problem:
                yield Violation("other_than_asked", f"{problem}: {change}", [call])


def granted_in_vain(history, call, change):
    """A grant that is over when its answer is written, as far as the node knows, is answered as one that is over."""
    if call.code != "hold_expired" or change.action not in HELD_ACTIONS - PAYMENT_MARKS:
        return False
    return history.mono(change.until_us) < call.end or history.clock_moved(call)


def other_than_asked(call, change, tables):
    if change.action not in ACTIONS_OF.get(call.op, ()):
        return f"{call.op} made {change.action}"
    if gives_back(change) and call.op != "return":
        return None if change.reason == "replaced" else "what was sold is gone"  # by what: see check_given_back
    if call.op == "confirm" and change.action == "seat_released":
        return "confirm released what was held"
    if call.hold is not None and change.hold != call.hold:
        return "another hold"
    if call.op != "admin_release" and change.user != asked_for(call, tables):
        return "another user"
    named = set(call.seats or ()) | set(call.add or ()) | set(call.remove or ())
    if named and change.seat and change.action in ("seat_held", "seat_released") and change.seat not in named:
        return "another seat"
    return None


def asked_for(call, tables):
    """Whose seats this call may change."""
    if call.op == "webhook":
        return tables.intents[call.intent].user if call.intent in tables.intents else None
    return call.to if call.op == "transfer" else call.user


def check_given_back(_, tables):
    """What was sold is returned by whoever has it, or the same request sells him something in its place."""
    for change in filter(gives_back, tables.changes):
        if change.reason not in GIVES_BACK:
            yield Violation("sold_released", f"{change}", [])
        elif change.reason == "replaced" and tables.replacement(change) is None:
            yield Violation("replaced_by_nothing", f"{change}", [])


def check_once(history, tables):
    """A request takes effect once, however often it was sent."""
    for call in history.calls:
        attempts = history.attempts(call)
        if call is not attempts[0] or call.op in ("checkout_start", "complete"):  # check_checkouts looks at them
            continue
        told = {hold["hold_id"] for each in attempts if each.status == 201 for hold in each.holds()}
        made = {change.hold for each in attempts for change in tables.by_rid[each.rid] if change.action == "seat_held"}
        # A late success takes the holds of its checkout anew, each by itself.
        checkout = tables.checkouts.get(tables.intents[call.intent].checkout) if call.intent in tables.intents else None
        if len(told) > 1 or len(made) > (len(checkout.holds) if checkout else 1):
            yield Violation("done_twice", f"told {sorted(told)}, made {sorted(made)}", attempts)
    yield from check_carts(history, tables)


def check_carts(history, tables):
    """The same areas with the same cart are the same hold, as long as it lives."""
    carts = grouped((call for call in history.calls if call.op == "hold" and call.areas and not call.seats),
                    lambda call: (call.user, call.event, call.cart, tuple(sorted(call.areas.items()))))
    for calls in carts.values():
        lives = sorted(area_life(change, tables) for call in calls for change in tables.by_rid[call.rid]
                       if change.action == "seat_held")
        for (_, end, first), (begin, _, second) in zip(lives, lives[1:]):
            if begin < end and first != second:
                yield Violation("done_twice", f"{first} and {second} for one cart", calls)


def area_life(change, tables):
    """(begin, end, hold) in microseconds of Postgres."""
    end = change.until_us
    for later in tables.by_area_hold[change.event, change.area, change.hold]:
        if later.version > change.version:
            end = later.at_us if later.action in ("seat_released", "seat_sold", "hold_transferred") else later.until_us
            if later.action in ("seat_released", "seat_sold", "hold_transferred"):
                break
    return change.at_us, end, change.hold


def check_seats(history, tables):
    """Each seat's story: what is sold was held by its buyer and alive; nothing ended before its time."""
    for (event, seat), changes in tables.by_seat.items():
        for before, change in zip([None, *changes], changes):
            problem = step_problem(before, change)
            if problem:
                call = history.by_rid.get(change.rid)
                yield Violation(problem, f"{event}/{seat}: {change} after {before}", [call] if call else [])
    for line in tables.lines:
        stories = tables.by_seat[line.event, line.seat] if line.seat else \
            tables.by_area_hold[line.event, line.area, line.hold]
        own = [change for change in stories if change.hold == line.hold and change.until_us is not None]
        if own and line.status in ("active", "converted") and own[-1].until_us != line.until_us:
            yield Violation("time_moved", f"{line} after {own[-1]}", [])


def step_problem(before, change):
    holder = before is not None and before.action in HELD_ACTIONS
    if change.action == "seat_sold":
        if not holder or (before.hold, before.user) != (change.hold, change.user):
            return "sold_to_stranger"
        if before.until_us <= change.at_us and before.action != "payment_started":
            return "sold_over"
    if before is not None and before.action == "payment_started" and change.action not in (
            "seat_sold", "payment_stopped") and change.reason != "payment_failed":
        return "broke_payment"
    if change.action == "seat_held" and (holder or before is not None and before.action == "seat_sold"):
        return "held_twice"
    if gives_back(change) and (before is None or before.action != "seat_sold" or
                               (before.hold, before.user) != (change.hold, change.user)):
        return "gave_back_anothers"
    if change.action == "seat_released" and change.reason == "ttl_expired" and holder \
            and change.at_us < before.until_us:
        return "ended_early"
    return None


# --- beliefs -------------------------------------------------------------------------------------------------


Belief = collections.namedtuple("Belief", "begin end user hold call")


def check_beliefs(history, tables):
    """No two users believe at one time, both with reason, that a seat is theirs."""
    givings = beliefs_end(history, tables)
    by_seat = collections.defaultdict(list)
    for call in history.calls:
        for hold in call.holds():
            if hold["user_id"] == call.user and hold["status"] in ("active", "converted"):
                for seat in hold["seats"]:
                    key = (hold["event_id"], seat["seat_id"])
                    taken = tables.by_version.get((*key, seat["version"]))
                    belief = belief_of(history, call, hold, givings[call.user, hold["hold_id"]], seat["seat_id"], taken)
                    by_seat[key].append(belief)
        for ticket in tickets_told(call):
            if "seat_id" in ticket:
                belief = belief_in_ticket(history, tables, call, ticket["seat_id"])
                by_seat[call.event, ticket["seat_id"]].append(belief)
    for (event, seat), beliefs in by_seat.items():
        yield from overlaps(event, seat, beliefs)


def belief_in_ticket(history, tables, call, seat):
    """From when it was heard until it was given back."""
    sales = [change for change in tables.by_seat[call.event, seat] if change.user == call.user
             and change.action == "seat_sold" and history.mono(change.at_us) <= call.end]
    back = tables.given_back(sales[-1]) if sales else None
    end = float("inf") if back is None else history.mono(back.at_us) - TICK_S
    return Belief(call.end, end, call.user, None, call)


def tickets_told(call):
    """What a completed checkout's answer says is sold."""
    return call.body["tickets"] if call.op == "complete" and call.status == 200 else []


def beliefs_end(history, tables):
    """(user, hold) -> the calls by which he may have given (part of) it away, in order; and what others ended."""
    givings = collections.defaultdict(list)
    for call in history.calls:
        if call.op in ("cancel", "transfer", "remove", "patch") and call.outcome != "refused":
            givings[call.user, call.hold].append(call)
    for change in tables.changes:
        call = history.by_rid.get(change.rid)
        if change.action == "seat_released" and (gives_back(change) or (
                tables.settled_by_a_node(change) if call is None else call.op in OPS_THAT_END)):
            # Judged then, and committed by the time of its answer: until then others may still be shown the hold.
            at = history.mono(change.at_us) - TICK_S
            by = max(at, call.end) if call is not None and call.outcome == "done" else at + COMMIT_LATE_S
            givings[change.user, change.hold].append(Call(op="ended", begin=at, end=by, remove=[change.seat]))
    return givings


def belief_of(history, call, hold, givings, seat, taken):
    """From when it was heard (a new one: from when it was judged) until its end as told, or until its owner may have
    given it away."""
    end = float("inf") if hold["status"] == "converted" else \
        time_ms(hold["expires_at"]) / 1e3 - history.run.wall_minus_mono - TICK_S
    begin = call.end
    if call.status == 201 and taken is not None and taken.rid == call.rid:
        begin = min(begin, history.mono(taken.at_us) + TICK_S)
    for giving in givings:
        whole = giving.op in ("cancel", "transfer") or seat in (giving.remove or ())
        if whole and giving.end > call.begin:
            end = min(end, giving.begin)
    return Belief(begin, end, call.user, hold["hold_id"], call)


def overlaps(event, seat, beliefs):
    """In order of their begins, each beside what every other user has believed so far."""
    latest = {}  # user -> his belief with the latest end
    for belief in sorted((b for b in beliefs if b.begin < b.end), key=lambda b: b.begin):
        for user, other in latest.items():
            if user != belief.user and other.end > belief.begin:
                yield Violation("two_believe", f"{event}/{seat}: {other.user} with {other.hold} until {other.end:.3f}, "
                                               f"{belief.user} with {belief.hold} from {belief.begin:.3f}",
                                [other.call, belief.call])
        if belief.user not in latest or latest[belief.user].end < belief.end:
            latest[belief.user] = belief


# --- refusals ------------------------------------------------------------------------------------------------


class Ownership:
    """Who had a seat, and when, as others could see it: [(begin, end, user)] on the clients' clock."""

    def __init__(self, history, tables):
        self._spans = {}
        for key, changes in tables.by_seat.items():
            spans = []
            for change, after in zip(changes, [*changes[1:], None]):
                if change.action in HELD_ACTIONS | {"seat_sold"}:
                    spans.append((history.mono(change.at_us), self._visible(history, after), change.user,
                                  change.action == "seat_sold"))
            self._spans[key] = spans

    @staticmethod
    def _visible(history, change):
        """When a change can be seen by all at the latest."""
        if change is None:
            return float("inf")
        call = history.by_rid.get(change.rid)
        at = history.mono(change.at_us)
        return call.end if call is not None and call.outcome == "done" else at + COMMIT_LATE_S

    def somebody_else(self, event, seat, user, begin, end, sold):
        return any(span_begin <= end and span_end >= begin and owner != user and (was_sold or not sold)
                   for span_begin, span_end, owner, was_sold in self._spans.get((event, seat), ()))

    def own(self, event, seat, user, begin, end):
        """Whether it was his all the time, surely."""
        return any(span_begin <= begin and span_end - COMMIT_LATE_S >= end and owner == user
                   for span_begin, span_end, owner, _ in self._spans.get((event, seat), ()))


def check_refusals(history, tables):
    """A loser hears "taken" only because somebody else has the seat."""
    ownership = Ownership(history, tables)
    for call in history.calls:
        if call.code not in ("seat_taken", "seat_sold") or not isinstance(call.body, dict):
            continue
        for refused in call.body.get("seats", []):
            seat, sold = refused["seat_id"], refused["code"] == "seat_sold"
            if refused["code"] not in ("seat_taken", "seat_sold"):
                continue
            # A seat that the user bought himself is sold for him, too.
            user = None if sold else call.user
            if not ownership.somebody_else(call.event, seat, user, call.begin - STALE_S, call.end, sold):
                yield Violation("taken_by_nobody", f"{call.event}/{seat} was free, or {call.user}'s own", [call])
            elif not sold and ownership.own(call.event, seat, call.user, call.begin - STALE_S, call.end):
                yield Violation("own_refused", f"{call.event}/{seat} was {call.user}'s own", [call])


# --- reads ---------------------------------------------------------------------------------------------------


class Told:
    """The versions of one seat that clients knew to be committed, in order of time."""

    def __init__(self):
        self._ends, self._highest = [], []

    def add(self, end, version):
        """In order of `end`."""
        self._ends.append(end)
        self._highest.append(max(version, self._highest[-1]) if self._highest else version)

    def at(self, time):
        place = bisect.bisect_left(self._ends, time)
        return self._highest[place - 1] if place else -1


def told_versions(history, tables):
    """(event, seat) -> Told, and (event, seat, node) -> Told of that node's answers to changes alone."""
    everywhere, at_node = collections.defaultdict(Told), collections.defaultdict(Told)
    for call in sorted(history.calls, key=lambda call: call.end):
        if call.outcome != "done":
            continue
        for change in tables.by_rid[call.rid]:
            if change.seat:
                everywhere[change.event, change.seat].add(call.end, change.version)
                at_node[change.event, change.seat, call.node].add(call.end, change.version)
    return everywhere, at_node


def shown_seats(call):
    """(seat, status, version, held_until, mine) of what a read showed."""
    if call.op == "read_seat":
        body = call.body
        yield body["seat_id"], body["status"], body["version"], body.get("held_until"), body.get("mine")
    else:
        for seat, (status, version, until) in call.body["seats"].items():
            yield seat, status, version, until, None


def check_reads(history, tables):
    """Only what was committed is shown; nothing older than it may be, unless the answer says that it may be stale."""
    everywhere, at_node = told_versions(history, tables)
    for call in history.calls:
        if call.op not in ("read_seat", "read_map") or call.status != 200 or (call.stale and call.tier == "redis"):
            continue
        for seat, status, version, until, mine in shown_seats(call):
            change = tables.by_version.get((call.event, seat, version))
            problem = shown_problem(history, call, change, status, version, until, mine)
            if problem:
                yield Violation("shown_untrue", f"{seat} {status} version {version} until {until}: {problem}", [call])
                continue
            least = everywhere[call.event, seat].at(call.begin - (0.0 if call.tier == "postgres" else STALE_S))
            if call.tier != "redis":
                least = max(least, at_node[call.event, seat, call.node].at(call.begin))
            if version < least and not call.stale:
                yield Violation("shown_stale", f"{seat}: version {version}, {least} was told before", [call])


STATUS_AFTER = {"seat_sold": "sold", "seat_released": "available", "seat_added": "available",
                "seat_blocked": "blocked", "seat_unblocked": "available", "seat_removed": "removed"}


def shown_problem(history, call, change, status, version, until, mine):
    if change is None:
        return None if (version, status) == (0, "available") else "no such version"  # a seat is born with 0
    if change.action == "seat_changed":
        return None
    if mine and change.user != call.user:
        return f"it is {change.user}'s"
    if change.action not in HELD_ACTIONS:
        return None if status == STATUS_AFTER.get(change.action) else f"it was {change}"
    if status == "available" and change.action != "payment_started":  # it is over
        early = history.mono(change.until_us) > call.end + TICK_S
        return f"it was not over: {change}" if early and not history.clock_moved(call) else None
    if status != "held" or time_ms(until) != change.until_us // 1000:
        return f"it was {change}"
    return None


# --- checkouts and payments ----------------------------------------------------------------------------------


# What an intent may have become that a webhook was told to be so.
AFTER_WORD = {"succeeded": {"succeeded"}, "refund_required": {"refund_required"},
              "failed": {"failed", "succeeded", "refund_required"},
              "expired": {"expired", "succeeded", "refund_required"}, "void": {"void", "refund_required"}}
OPEN_INTENTS = {"processing", "pending"}


def check_checkouts(history, tables):
    """What the answers about a checkout or a payment promised is so, for ever."""
    promises = {"checkout_start": start_problem, "complete": complete_problem, "checkout_cancel": cancel_problem,
                "webhook": webhook_problem}
    for call in history.calls:
        if call.op in promises and call.outcome == "done":
            problem = promises[call.op](call, tables, history)
            if problem:
                yield Violation(*problem, [call])


def start_problem(call, tables, _):
    row = tables.checkouts.get(call.body["checkout_id"])
    if row is None or (row.user, row.event) != (call.user, call.event):
        return "told_without_row", f"the checkout {call.body['checkout_id']} is {row}"
    return None


def complete_problem(call, tables, history):
    """A payment under way has its intent; a completed one has sold what it says, to its buyer, and nothing else."""
    row = tables.checkouts.get(call.checkout)
    if call.status == 202:
        intent = tables.intents.get(call.body["payment_intent_id"])
        return None if intent and intent.checkout == call.checkout else ("told_without_row", f"the intent is {intent}")
    if row is None or row.status != "completed" or tables.intents[row.intent].status != "succeeded":
        return "sale_lost", f"told to be completed, and is {row}"
    told = {ticket["ticket_id"]: ticket.get("seat_id") for ticket in call.body["tickets"]}
    sold = {ticket: line.seat for line in tables.lines_of_checkout[call.checkout] if was_sold(line)
            for ticket in line.tickets}
    void = {ticket for ticket, seat in sold.items()
            if ticket not in told and was_given_back(call, row, seat, tables, history)}
    if told != {ticket: seat for ticket, seat in sold.items() if ticket not in void} or not sold:
        return "told_otherwise", f"tickets {told} told, {sold} sold"
    for seat in filter(None, told.values()):
        changes = tables.by_seat[row.event, seat]
        sale = next((c for c in reversed(changes) if (c.action, c.user) == ("seat_sold", row.user)), None)
        if sale is None or (sale is not changes[-1] and not tables.given_back(sale)):
            return "sale_lost", f"{seat} is {changes[-1]}"
    return None


def was_given_back(call, row, seat, tables, history):
    """Whether what the checkout had sold was given back by the time of this answer."""
    return any(gives_back(change) and change.hold in row.holds and change.seat == seat
               and history.mono(change.at_us) <= call.end for change in tables.by_seat[row.event, seat])


def cancel_problem(call, tables, _):
    """It is cancelled, what it names was released, and nothing was sold by it (a newer checkout may have its holds)."""
    row = tables.checkouts.get(call.checkout)
    if row is None or row.status != "cancelled":
        return "over_but_stands", f"told to be cancelled, and is {row}"
    for seat in (each["seat_id"] for each in call.body["released_seats"]):
        if not any(change.action == "seat_released" and change.hold in row.holds
                   for change in tables.by_seat[row.event, seat]):
            return "told_without_row", f"{seat} was never released"
    sold = [line for line in tables.lines_of_checkout[call.checkout]
            if was_sold(line) and line.hold not in tables.confirmed]
    return ("over_but_stands", f"told to be cancelled, and sold {sold}") if sold else None


def webhook_problem(call, tables, _):
    intent, told = tables.intents.get(call.intent), call.body["status"]
    if intent is None or intent.status not in AFTER_WORD[told]:
        return "told_otherwise", f"told {told}, and is {intent}"
    return None


def check_payments(history, tables):
    """A payment and its sale are one: who paid has the whole of it, who didn't has nothing, and the sum is right.

    Who confirms a hold by itself, after the payment for it came to nothing, has bought it another way.
    """
    for intent in tables.intents.values():
        checkout = tables.checkouts.get(intent.checkout)
        lines = tables.lines_of_checkout[intent.checkout]
        sold = [line for line in lines if was_sold(line)]
        if intent.status == "succeeded":
            if checkout.status != "completed" or not sold or any(line.status == "active" for line in lines):
                yield Violation("paid_not_sold", f"{intent}: {checkout}, {lines}", [])
            elif intent.amount != sum(line.price * line.quantity for line in sold):
                yield Violation("wrong_amount", f"{intent} for {sold}", [])
        elif checkout.intent == intent.id and any(line.hold not in tables.confirmed for line in sold):
            yield Violation("sold_not_paid", f"{intent}: {checkout}, {sold}", [])
        if history.quiet and intent.status in OPEN_INTENTS:
            yield Violation("payment_hangs", f"{intent}", [])
    for line in tables.lines if history.quiet else ():
        if line.in_payment and line.status == "active":
            yield Violation("payment_hangs", f"{line}", [])


# --- after it all --------------------------------------------------------------------------------------------


def check_sellable(history, tables):
    """In the end each seat that isn't sold could be held by somebody, and so could a part of each area."""
    if not history.quiet:
        return
    got = set()
    for call in history.calls:
        if call.op == "final_hold" and call.status == 201:
            got |= {(call.event, seat) for seat in call.seats or ()} | {(call.event, area) for area in call.areas or ()}
    for seat in tables.seats:
        if seat.status not in ("sold", "blocked", "removed") and (seat.event, seat.seat) not in got:
            yield Violation("unsellable", f"{seat}", [])
    for area in tables.areas:
        if area.sold < area.capacity and (area.event, area.area) not in got:
            yield Violation("unsellable", f"{area}", [])


CHECKS = (check_findings, check_answers, check_punctuality, check_told, check_denials, check_stands, check_given_back,
          check_once, check_seats, check_beliefs, check_refusals, check_reads, check_checkouts, check_payments,
          check_sellable)


def confirmed_holds(history, tables):
    """The holds that their users have bought by themselves, whatever became of a checkout with them."""
    calls = {change.hold: history.by_rid.get(change.rid) for change in tables.changes if change.action == "seat_sold"}
    return {hold for hold, call in calls.items() if call is not None and call.op == "confirm"}


def check(lines, connection):
    """The violations of a history, given as lines of text."""
    history = History(lines)
    if history.run is None:
        return [Violation("no_history", "the first line is missing", [])]
    with connection.cursor() as cursor:
        tables = Tables(cursor, history.run.org)
    tables.confirmed = confirmed_holds(history, tables)
    return [violation for each in CHECKS for violation in each(history, tables)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("history")
    parser.add_argument("--database-url", required=True)
    arguments = parser.parse_args()
    connection = psycopg2.connect(arguments.database_url)
    connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
    with open(arguments.history, encoding="utf-8") as lines:
        violations = check(lines, connection)
    connection.close()
    for kind, those in grouped(violations, lambda violation: violation.kind).items():
        for violation in those[:SHOWN_OF_A_KIND]:
            print(f"{kind}: {violation.detail}")
            for call in violation.lines:
                print(f"    {call.line}")
        print(f"{kind}: {len(those)} in all")
    print(f"history: {len(violations)} violations")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
