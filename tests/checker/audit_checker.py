#!/usr/bin/python3
"""audit_checker.py DATABASE_URL [--org O] [--event E]: does the audit log tell one possible story?

Written against the tables alone; shares no code and no query with the server, so that a fault in the server's own
`verify` can't hide here. Prints each violation; exit status 1 if there is any, 2 for a usage error.

The story of a seat (and of an area) is its audit rows in order of version. It must be gapless, each step must be legal from where the
step before left the seat, times must allow it, and its end must be what `seats` and `seat_holds` say. Everything is read
in one snapshot, so the server may be running.
"""

import argparse
import collections
import contextlib
import dataclasses
import itertools
import sys

import psycopg2

FETCH_ROWS = 10000
RAN_OUT = ("ttl_expired", "waitlist_lapsed")

Violation = collections.namedtuple("Violation", "kind org event subject detail")
Violation.__str__ = lambda v: f"{v.kind}: {v.org}/{v.event}/{v.subject}: {v.detail}"

Entry = collections.namedtuple("Entry", "org event seat version action hold user at until reason id")
SeatRow = collections.namedtuple("SeatRow", "org event seat version status hold user until paying")
Line = collections.namedtuple("Line", "org event seat hold user status until paying")
# `seat` is the area's id in these: both kinds of story are read and joined alike.
AreaEntry = collections.namedtuple("AreaEntry", "org event seat version action hold quantity at until reason id")
AreaRow = collections.namedtuple("AreaRow", "org event seat version capacity held sold")
AreaSums = collections.namedtuple("AreaSums", "org event seat held sold")


# --- reading -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def snapshot(connection):
    """One unchanging view of the database. The connection must be in autocommit mode or idle."""
    with connection.cursor() as cursor:
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield cursor
        finally:
            cursor.execute("ROLLBACK")


def rows(cursor, kind, query, parameters):
    """All rows as `kind`, read in portions: an event may have a million."""
    name = f"checker_{kind.__name__.lower()}"
    cursor.execute(f"DECLARE {name} CURSOR FOR {query}", parameters)
    while True:
        cursor.execute(f"FETCH {FETCH_ROWS} FROM {name}")
        portion = cursor.fetchall()
        if not portion:
            return
        yield from map(kind._make, portion)


def of_scope(org, event):
    """The condition that picks one event, one organization or everything."""
    conditions = [(f"{column} = %s", value) for column, value in (("org_id", org), ("event_id", event)) if value]
    return "".join(f" AND {text}" for text, _ in conditions), [value for _, value in conditions]


def entries_of(cursor, org, event):
    scope, parameters = of_scope(org, event)
    return rows(cursor, Entry, f"""
        SELECT org_id, event_id, seat_id, version, action::text, hold_id::text, user_id, at, held_until, reason, id
        FROM audit_log WHERE seat_id IS NOT NULL AND action::text NOT LIKE 'waitlist%%'{scope}
        ORDER BY org_id COLLATE "C", event_id COLLATE "C", seat_id COLLATE "C", version, id""", parameters)


def seats_of(cursor, org, event):
    scope, parameters = of_scope(org, event)
    return rows(cursor, SeatRow, f"""
        SELECT org_id, event_id, seat_id, version, status::text, hold_id::text, user_id, held_until, in_payment
        FROM seats WHERE true{scope}
        ORDER BY org_id COLLATE "C", event_id COLLATE "C", seat_id COLLATE "C" """, parameters)


def lines_of(cursor, org, event):
    scope, parameters = of_scope(org, event)
    return rows(cursor, Line, f"""
        SELECT org_id, event_id, seat_id, hold_id::text, user_id, status::text, held_until, in_payment
        FROM seat_holds WHERE seat_id IS NOT NULL{scope}
        ORDER BY org_id COLLATE "C", event_id COLLATE "C", seat_id COLLATE "C" """, parameters)


def area_entries_of(cursor, org, event):
    scope, parameters = of_scope(org, event)
    return rows(cursor, AreaEntry, f"""
        SELECT org_id, event_id, area_id, version, action::text, hold_id::text, quantity, at, held_until, reason, id
        FROM audit_log WHERE area_id IS NOT NULL{scope}
        ORDER BY org_id COLLATE "C", event_id COLLATE "C", area_id COLLATE "C", version, id""", parameters)


def areas_of(cursor, org, event):
    scope, parameters = of_scope(org, event)
    return rows(cursor, AreaRow, f"""
        SELECT org_id, event_id, area_id, version, capacity, held, sold FROM areas WHERE true{scope}
        ORDER BY org_id COLLATE "C", event_id COLLATE "C", area_id COLLATE "C" """, parameters)


def area_sums_of(cursor, org, event):
    """What the lines add up to."""
    scope, parameters = of_scope(org, event)
    return rows(cursor, AreaSums, f"""
        SELECT org_id, event_id, area_id, coalesce(sum(quantity) FILTER (WHERE status = 'active'), 0),
               coalesce(sum(quantity) FILTER (WHERE status = 'converted'), 0)
        FROM seat_holds WHERE area_id IS NOT NULL{scope} GROUP BY 1, 2, 3
        ORDER BY org_id COLLATE "C", event_id COLLATE "C", area_id COLLATE "C" """, parameters)


def grouped(sorted_rows):
    return itertools.groupby(sorted_rows, key=lambda row: (row.org, row.event, row.seat))


def joined(*streams):
    """Joins streams that are grouped by the same sorted key: (key, rows of the first, rows of the second, ...)."""
    streams = [((key, list(group)) for key, group in grouped(stream)) for stream in streams]
    heads = [next(stream, None) for stream in streams]
    while any(heads):
        # Python compares str by code point, Postgres' "C" by byte: the same order for UTF-8.
        key = min(head[0] for head in heads if head)
        found = []
        for index, head in enumerate(heads):
            if head and head[0] == key:
                found.append(head[1])
                heads[index] = next(streams[index], None)
            else:
                found.append([])
        yield (key, *found)


# --- the story of one seat -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Story:
    """A seat as its audit rows have left it so far, and what was wrong on the way."""

    key: tuple
    status: str = "absent"
    version: int = 0
    hold: str = None
    user: str = None
    until: object = None
    paying: bool = False  # from payment_started on the hold's end ends nothing, and only the payment's own end may
    last_at: object = None
    ends: dict = dataclasses.field(default_factory=dict)  # hold -> per take, the statuses its line may have
    violations: list = dataclasses.field(default_factory=list)

    def wrong(self, kind, detail):
        self.violations.append(Violation(kind, *self.key, detail))

    def free(self, status="available"):
        self.status, self.hold, self.user, self.until, self.paying = status, None, None, None, False


def tell(key, entries):
    """Replays the rows of one seat."""
    story = Story(key)
    for entry in entries:
        check_version(story, entry)
        check_time(story, entry)
        step = STEPS.get(entry.action)
        if step is None:
            story.wrong("unknown_action", f"{entry.action} at version {entry.version}")
        else:
            step(story, entry)
    return story


def check_version(story, entry):
    """Dense, beginning at 1; a seat's birth may be its version 0, as the column's default is."""
    born = story.status == "absent" and entry.action == "seat_added"
    wanted = {0, 1} if born else {story.version + 1}
    if entry.version is None:
        story.wrong("version_missing", f"{entry.action} (audit row {entry.id}) has none")
    elif entry.version not in wanted:
        kind = "version_double" if entry.version <= story.version else "version_gap"
        story.wrong(kind, f"{entry.action} makes version {entry.version} after {story.version}")
    story.version = entry.version if entry.version is not None else story.version


def check_time(story, entry):
    """A change can't have been judged before the one whose result it found."""
    if story.last_at is not None and entry.at < story.last_at:
        story.wrong("time_backwards", f"version {entry.version} at {entry.at} after {story.last_at}")
    story.last_at = entry.at


def legal(story, entry, *statuses):
    """Whether the seat is in a state from which this may happen; else a violation."""
    status = "available" if story.status == "absent" else story.status  # rows inserted by hand have no birth
    if status in statuses:
        return True
    if entry.action == "seat_held" and status in ("held", "sold"):
        story.wrong("overlap", f"{entry.hold} took it at {entry.at} in the life of {story.hold} ({status})")
    else:
        story.wrong("illegal_step", f"{entry.action} at version {entry.version} on a seat that is {status}")
    return False


def same_hold(story, entry):
    if entry.hold != story.hold:
        story.wrong("wrong_hold", f"{entry.action} at version {entry.version} names {entry.hold}, not {story.hold}")


def not_paying(story, entry, paying):
    """What a payment keeps everybody else from doing."""
    if paying:
        story.wrong("in_payment", f"{entry.action} at version {entry.version} on {entry.hold}, which is in payment")


def still_alive(story, entry):
    """A grant on a hold is judged before its end."""
    if story.until is not None and entry.at >= story.until:
        story.wrong("after_end", f"{entry.action} at {entry.at}, the hold {story.hold} ended at {story.until}")


def seat_held(story, entry):
    legal(story, entry, "available")
    if entry.hold is None or entry.until is None or entry.user is None:
        story.wrong("incomplete", f"seat_held at version {entry.version} lacks hold, user or end")
    elif entry.until <= entry.at:
        story.wrong("born_dead", f"hold {entry.hold} from {entry.at} until {entry.until}")
    story.status, story.hold, story.user, story.until = "held", entry.hold, entry.user, entry.until
    story.ends.setdefault(entry.hold, []).append({"active"})


def hold_extended(story, entry):
    if not legal(story, entry, "held"):
        return
    same_hold(story, entry)
    not_paying(story, entry, story.paying)
    still_alive(story, entry)
    if entry.until is None or (story.until is not None and entry.until < story.until):
        story.wrong("shortened", f"extended from {story.until} to {entry.until}")
    story.until = entry.until


def hold_changed(story, entry):
    if not legal(story, entry, "held"):
        return
    same_hold(story, entry)
    not_paying(story, entry, story.paying)
    still_alive(story, entry)
    if entry.until != story.until:
        story.wrong("end_moved", f"hold_changed moved the end from {story.until} to {entry.until}")
        story.until = entry.until


def hold_transferred(story, entry):
    if not legal(story, entry, "held"):
        return
    same_hold(story, entry)
    not_paying(story, entry, story.paying)
    still_alive(story, entry)
    story.user = entry.user


def payment_started(story, entry):
    if not legal(story, entry, "held"):
        return
    same_hold(story, entry)
    not_paying(story, entry, story.paying)
    still_alive(story, entry)
    story.paying = True


def payment_stopped(story, entry):
    """The mark is taken back; the end of the hold counts again."""
    if not legal(story, entry, "held"):
        return
    same_hold(story, entry)
    if not story.paying:
        story.wrong("illegal_step", f"payment_stopped at version {entry.version}, and no payment had started")
    story.paying = False


def seat_sold(story, entry):
    if legal(story, entry, "held"):
        same_hold(story, entry)
        if not story.paying:
            still_alive(story, entry)
    story.status, story.hold, story.until, story.paying = "sold", entry.hold, None, False
    end_take(story, entry.hold, {"converted"})


def seat_released(story, entry):
    if legal(story, entry, "held", "sold"):
        same_hold(story, entry)
        check_reason(story, entry)
        not_paying(story, entry, story.paying and entry.reason != "payment_failed")
    end_take(story, story.hold, {"expired"} if entry.reason in RAN_OUT else {"cancelled", "expired"})
    story.free()


def end_take(story, hold, statuses):
    """What the line of the take that just ended must say. A hold may take a seat again, with a new line."""
    if hold in story.ends:
        story.ends[hold][-1] = statuses


def check_reason(story, entry):
    if entry.reason is None:
        story.wrong("incomplete", f"seat_released at version {entry.version} gives no reason")
    if story.status == "sold" and entry.reason not in GIVES_BACK:
        story.wrong("sold_released", f"released at {entry.at} as {entry.reason}")
    if entry.reason in RAN_OUT and story.until is not None and entry.at < story.until:
        story.wrong("expired_early", f"{story.hold} expired at {entry.at}, its end is {story.until}")
    if entry.reason == "user_cancelled" and story.until is not None and entry.at >= story.until:
        story.wrong("cancelled_late", f"{story.hold} cancelled at {entry.at}, it was over at {story.until}")


def seat_blocked(story, entry):
    legal(story, entry, "available")
    story.free("blocked")


def seat_unblocked(story, entry):
    legal(story, entry, "blocked")
    story.free()


def seat_removed(story, entry):
    legal(story, entry, "available", "blocked")
    story.free("removed")


def seat_added(story, entry):
    if story.status not in ("absent", "removed"):
        story.wrong("illegal_step", f"seat_added at version {entry.version} on a seat that is {story.status}")
    story.free()


def seat_changed(story, entry):
    legal(story, entry, "available", "held", "sold", "blocked")


# Why what was sold may be released: whoever has it cancels, or has bought something else in its place.
GIVES_BACK = ("user_cancelled", "replaced")

STEPS = {step.__name__: step for step in (
    seat_held, hold_extended, hold_changed, hold_transferred, payment_started, payment_stopped, seat_sold, seat_released,
    seat_blocked, seat_unblocked, seat_removed, seat_added, seat_changed)}


# --- the end of the story ------------------------------------------------------------------------------------


def check_end(story, seat_rows, lines):
    """The tables must stand as the story ended."""
    if len(seat_rows) != 1:
        story.wrong("seat_missing", f"{len(seat_rows)} rows in seats")
        return
    seat = seat_rows[0]
    told = "available" if story.status == "absent" else story.status
    for what, tale, row in (("status", told, seat.status), ("version", story.version, seat.version),
                            ("hold_id", story.hold, seat.hold), ("held_until", story.until, seat.until),
                            ("user_id", story.user, seat.user), ("in_payment", story.paying, seat.paying)):
        if tale != row:
            story.wrong("final_state", f"{what}: the audit log ends with {tale}, seats has {row}")
    check_lines(story, seat, lines)


def check_lines(story, seat, lines):
    living = [line for line in lines if line.status == "active"]
    if len(living) > 1:
        story.wrong("two_active", f"active lines of {sorted(line.hold for line in living)}")
    wanted = {"held": "active", "sold": "converted"}.get(seat.status)
    own = [line for line in lines if line.hold == seat.hold and line.status == wanted]
    if wanted and len(own) != 1:
        story.wrong("line_missing", f"{seat.status} by {seat.hold}, which has {len(own)} {wanted} lines for it")
    for line in own:
        if line.user != seat.user or (wanted == "active" and (line.until, line.paying) != (seat.until, seat.paying)):
            story.wrong("line_differs", f"seats: {seat}; line: {line}")
    for hold in {line.hold for line in lines} - story.ends.keys():
        story.wrong("line_unknown", f"a line of {hold}, which no audit row took")
    for hold, takes in story.ends.items():
        check_takes(story, hold, takes, [line.status for line in lines if line.hold == hold])


def check_takes(story, hold, takes, statuses):
    """One line per take, each with a status that fits. Strict ones choose first."""
    left = list(statuses)
    for wanted in sorted(takes, key=len):
        found = next((status for status in left if status in wanted), None)
        if found is None:
            story.wrong("line_status", f"lines of {hold} are {statuses}; none is left for {sorted(wanted)}")
            return
        left.remove(found)
    if left:
        story.wrong("line_unknown", f"lines of {hold} are {statuses}; {left} were never taken")


# --- the story of an area ------------------------------------------------------------------------------------


@dataclasses.dataclass
class AreaStory(Story):
    """How much each hold has of an area, and until when; and what is sold."""

    held: dict = dataclasses.field(default_factory=dict)  # hold -> (quantity, until)
    sold: dict = dataclasses.field(default_factory=dict)  # hold -> quantity
    payers: set = dataclasses.field(default_factory=set)  # the holds that are in payment


def tell_area(key, entries):
    story = AreaStory(key)
    for entry in entries:
        check_version(story, entry)
        check_time(story, entry)
        if entry.action == "area_changed":
            continue
        if entry.action not in AREA_STEPS:
            story.wrong("unknown_action", f"{entry.action} at version {entry.version}")
        elif entry.action == "seat_held":
            area_held(story, entry)
        elif entry.action == "seat_released" and entry.hold in story.sold:
            area_given_back(story, entry)
        elif entry.hold in story.held:
            AREA_STEPS[entry.action](story, entry, *story.held[entry.hold])
        else:
            story.wrong("illegal_step", f"{entry.action} at version {entry.version}: {entry.hold} has nothing of it")
    return story


def area_held(story, entry):
    if entry.hold in story.held:
        story.wrong("illegal_step", f"seat_held at version {entry.version}: {entry.hold} has some of it already")
    story.held[entry.hold] = (entry.quantity, entry.until)


def area_kept(story, entry, quantity, until):
    """Extended, changed or transferred: the quantity stays unless the row says otherwise."""
    not_paying(story, entry, entry.hold in story.payers)
    if entry.at >= until:
        story.wrong("after_end", f"{entry.action} at {entry.at}, the hold {entry.hold} ended at {until}")
    changed = entry.quantity if entry.action == "hold_changed" else quantity
    story.held[entry.hold] = (changed, entry.until if entry.action == "hold_extended" else until)


def area_paying(story, entry, quantity, until):
    area_kept(story, entry, quantity, until)
    story.payers.add(entry.hold)


def area_not_paying(story, entry, quantity, _):
    if entry.hold not in story.payers:
        story.wrong("illegal_step", f"payment_stopped at version {entry.version}, and no payment had started")
    same_quantity(story, entry, quantity)
    story.payers.discard(entry.hold)


def area_sold(story, entry, quantity, until):
    if entry.at >= until and entry.hold not in story.payers:
        story.wrong("after_end", f"seat_sold at {entry.at}, the hold {entry.hold} ended at {until}")
    same_quantity(story, entry, quantity)
    story.payers.discard(entry.hold)
    del story.held[entry.hold]
    story.sold[entry.hold] = story.sold.get(entry.hold, 0) + quantity


def area_released(story, entry, quantity, until):
    if entry.reason in RAN_OUT and entry.at < until:
        story.wrong("expired_early", f"{entry.hold} expired at {entry.at}, its end is {until}")
    not_paying(story, entry, entry.hold in story.payers and entry.reason != "payment_failed")
    same_quantity(story, entry, quantity)
    story.payers.discard(entry.hold)
    del story.held[entry.hold]


def area_given_back(story, entry):
    if entry.reason not in GIVES_BACK:
        story.wrong("sold_released", f"released at {entry.at} as {entry.reason}")
    same_quantity(story, entry, story.sold.pop(entry.hold))


def same_quantity(story, entry, quantity):
    if entry.quantity != quantity:
        story.wrong("wrong_quantity", f"{entry.action} of {entry.quantity}; {entry.hold} has {quantity}")


AREA_STEPS = {"seat_held": area_held, "hold_extended": area_kept, "hold_changed": area_kept,
              "hold_transferred": area_kept, "payment_started": area_paying, "payment_stopped": area_not_paying,
              "seat_sold": area_sold, "seat_released": area_released}


def check_area_end(story, area_rows, sums):
    """The counts must be what the story and, apart from it, the lines add up to."""
    if len(area_rows) != 1:
        story.wrong("area_missing", f"{len(area_rows)} rows in areas")
        return
    area = area_rows[0]
    told = (story.version, sum(quantity for quantity, _ in story.held.values()), sum(story.sold.values()))
    if told != (area.version, area.held, area.sold):
        story.wrong("final_state", f"version, held, sold: the audit log ends with {told}, "
                                   f"areas has {(area.version, area.held, area.sold)}")
    lines = (sums[0].held, sums[0].sold) if sums else (0, 0)
    if lines != (area.held, area.sold):
        story.wrong("area_counts", f"held {area.held} sold {area.sold}; lines: held {lines[0]} sold {lines[1]}")
    if area.held + area.sold > area.capacity:
        story.wrong("area_oversold", f"{area.held} + {area.sold} of {area.capacity}")


# --- what takes the place of what was sold ----------------------------------------------------------------------


def check_replaced(cursor, org, event):
    """Who gives back what was sold because something else takes its place has bought that with the same request."""
    scope, parameters = of_scope(org, event)
    cursor.execute(f"""
        SELECT org_id, event_id, coalesce(seat_id, area_id), at, user_id FROM audit_log r
        WHERE action::text = 'seat_released' AND reason = 'replaced' AND held_until IS NULL{scope} AND NOT EXISTS (
            SELECT FROM audit_log s
            WHERE s.org_id = r.org_id AND s.event_id = r.event_id AND s.user_id = r.user_id AND s.hold_id <> r.hold_id
              AND s.action::text = 'seat_sold' AND s.request_id IS NOT DISTINCT FROM r.request_id AND s.at <= r.at)
        """, parameters)
    for org, event, subject, when, user in cursor.fetchall():
        yield Violation("replaced_by_nothing", org, event, subject, f"{user} gave it back at {when} for nothing")


# --- all of it -----------------------------------------------------------------------------------------------


def check_event(connection, org=None, event=None):
    """The violations of one event, of one organization's events, or of all."""
    violations = []
    with snapshot(connection) as cursor:
        for key, entries, seat_rows, lines in joined(
                entries_of(cursor, org, event), seats_of(cursor, org, event), lines_of(cursor, org, event)):
            story = tell(key, entries)
            check_end(story, seat_rows, lines)
            violations += story.violations
        for key, entries, area_rows, sums in joined(
                area_entries_of(cursor, org, event), areas_of(cursor, org, event), area_sums_of(cursor, org, event)):
            story = tell_area(key, entries)
            check_area_end(story, area_rows, sums)
            violations += story.violations
        violations += check_replaced(cursor, org, event)
    return violations


def main():
    parser = argparse.ArgumentParser(description="checks the audit log against itself and against the tables")
    parser.add_argument("database_url")
    parser.add_argument("--org")
    parser.add_argument("--event")
    wanted = parser.parse_args()
    connection = psycopg2.connect(wanted.database_url)
    connection.autocommit = True
    violations = check_event(connection, wanted.org, wanted.event)
    for violation in violations:
        print(violation)
    print(f"{len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
