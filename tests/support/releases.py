"""Releases as tests look at them: the answer, the rows, Redis, the stream and the audit log.

    with Watch(client, event, db, redis) as watch:
        watch.hold(hold)                                    # a hold as it was granted: it is free soon
        released(admin, hold_ids=[hold["hold_id"]])         # 200, parsed
        watch.was_released(hold, "admin_override", by=admin.user)
"""

from support import warm_truth
from support.contract import REASONS
from support.sse import SEAT_EVENTS, EventStream, assert_versions_rise
from support.tables import area_row, audit, hold_lines, query, seat_row
from support.waiting import wait_until

SCENARIOS = {"ttl_expired": "ttl_expiration", "user_cancelled": "user_cancellation",
             "payment_failed": "payment_failure", "admin_override": "admin_override"}
USER_AGENT = "box office 1.0"


TIME_S = 300  # a big one on a busy machine


def release(admin, **what):
    return admin.post("/api/admin/seats/release", what, headers={"User-Agent": USER_AGENT}, timeout=TIME_S)


def released(admin, **what):
    """A release that must be answered 200, as the parsed body."""
    body = release(admin, **what).expect(200).json
    assert {"status", "seats_released", "reason", "message", "skipped", "skipped_count"} <= set(body), body
    assert (body["status"], body["reason"]) == ("released", "admin_override") and body["message"]
    assert ("hold_id" in body) == (len(what.get("hold_ids", [])) == 1), body
    assert body["skipped_count"] == len(body["skipped"]) or len(body["skipped"]) == 1000
    return body


def skipped(body):
    """{hold (or seat, where seats were named): reason}"""
    return {skip.get("seat_id", skip["hold_id"]): skip["reason"] for skip in body["skipped"]}


def hold_all(db, org, event):
    """Every seat of the event held by somebody, as if each had asked."""
    query(db, """
        WITH taken AS (
            UPDATE seats SET status = 'held', hold_id = uuid_v7(), user_id = 'buyer-' || seat_id, version = version + 1,
                held_until = clock_timestamp() + interval '10 minutes'
            WHERE org_id = %s AND event_id = %s AND status = 'available'
            RETURNING *),
        lines AS (
            INSERT INTO seat_holds (hold_id, held_until, created_at, line, org_id, event_id, seat_id, user_id, cart_token, source)
            SELECT hold_id, held_until, clock_timestamp(), 1, org_id, event_id, seat_id, user_id, 'c', 'web' FROM taken)
        INSERT INTO audit_log (at, version, hold_id, held_until, action, org_id, event_id, seat_id, user_id, actor)
        SELECT clock_timestamp(), version, hold_id, held_until, 'seat_held', org_id, event_id, seat_id, user_id, user_id FROM taken
        RETURNING 1""", org, event)


class Watch:
    """One event, from before what a test does to it. `redis` may be None."""

    def __init__(self, client, event, db, redis):
        self.client, self.org, self.event, self.db, self.redis = client, client.org, event, db, redis
        self.stream = EventStream(client, event)
        self.stream.expect(200)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()

    # --- what a release leaves behind --------------------------------------------------------------------------

    def was_released(self, hold, reason, by=None, status="cancelled", seats=None, notes=None, request_id=None,
                     checked_out=0):
        """These seats of the hold (all of them and its areas) are free, everywhere, and it says why.

        by: who did it; None: the system. checked_out: how many further changes raised the versions in between.
        """
        assert reason in REASONS
        wanted = {seat["seat_id"]: seat["version"] + 1 + checked_out for seat in hold["seats"]
                  if seats is None or seat["seat_id"] in seats}
        self._rows_are_free(hold, wanted, reason, status, notes)
        self._audit_says(hold, wanted, reason, by, request_id)
        self._stream_says(wanted, reason)
        self.redis_has_none(hold, wanted)

    def _rows_are_free(self, hold, wanted, reason, status, notes):
        for seat, version in wanted.items():
            row = seat_row(self.db, self.org, self.event, seat)
            assert (row.status, row.hold_id, row.held_until, row.user_id, row.in_payment, row.version) == \
                ("available", None, None, None, False, version), row
        lines = [line for line in hold_lines(self.db, hold["hold_id"])
                 if line.seat_id in wanted or (line.area_id and len(wanted) == len(hold["seats"]))]
        assert len(lines) >= len(wanted)
        for line in lines:
            assert (line.status, line.reason) == (status, reason), line
            assert notes is None or line.notes == notes, line
        assert not query(self.db, "SELECT 1 FROM seat_holds WHERE hold_id = %s AND status <> 'active' AND ended_at IS NULL",
                         hold["hold_id"])

    def _audit_says(self, hold, wanted, reason, by, request_id):
        for seat, version in wanted.items():
            entry = audit(self.db, self.org, self.event, seat)[-1]
            assert (entry.action, entry.version, entry.hold_id, entry.reason, entry.actor) == \
                ("seat_released", version, hold["hold_id"], reason, by), entry
            assert request_id is None or entry.request_id == request_id, entry
            assert entry.user_id == hold["user_id"]  # whose hold it was

    def _stream_says(self, wanted, reason):
        """Each seat's release comes, once, with its version and its reason."""
        told = {}

        def all_came():
            self.stream.receive(0.05)
            told.clear()
            for event in self.stream.events:
                data = event.data
                if event.name == "seat_released" and data["version"] == wanted.get(data["seat_id"]):
                    told.setdefault(data["seat_id"], []).append((data["status"], data["reason"]))
            return told.keys() == wanted.keys()

        wait_until(all_came, what=f"the stream says that {wanted} are free")
        assert told == {seat: [("available", reason)] for seat in wanted}, told

    def redis_has_none(self, hold, seats):
        """No key and no member of these seats; of a hold that has ended no meta either."""
        if self.redis is None:
            return
        ended = not query(self.db, "SELECT 1 FROM seat_holds WHERE hold_id = %s AND status = 'active'", hold["hold_id"])

        def gone():
            values, members = warm_truth.found(self.redis, self.org, self.event)
            left = [seat for seat in seats if values.get(seat, {}).get("hold_id") == hold["hold_id"]]
            left += [member for member in members if member.split(":")[0] in seats and hold["hold_id"] in member]
            meta = warm_truth.found_meta(self.redis, self.org, self.event, hold["hold_id"])
            return not left and not (ended and meta not in ({}, "none"))

        wait_until(gone, what=f"Redis has nothing of {hold['hold_id']}")

    # --- what it leaves alone ---------------------------------------------------------------------------------

    def state(self):
        """All that a release could change."""
        return (query(self.db, "SELECT seat_id, status::text, hold_id::text, held_until, version, in_payment FROM seats "
                      "WHERE org_id = %s AND event_id = %s ORDER BY seat_id", self.org, self.event),
                query(self.db, "SELECT hold_id::text, line, status::text, reason, notes, ended_at FROM seat_holds "
                      "WHERE org_id = %s AND event_id = %s ORDER BY hold_id, line", self.org, self.event),
                query(self.db, "SELECT area_id, held, sold, version FROM areas WHERE org_id = %s AND event_id = %s "
                      "ORDER BY area_id", self.org, self.event),
                len(audit(self.db, self.org, self.event)),
                warm_truth.found(self.redis, self.org, self.event) if self.redis else None)

    def nothing_more(self):
        """The stream tells of no change of a seat that isn't there, and of none twice."""
        self.stream.receive(0.3)
        assert_versions_rise(self.stream.events)
        stand = dict(query(self.db, "SELECT seat_id, version FROM seats WHERE org_id = %s AND event_id = %s",
                           self.org, self.event))
        beyond = [event for event in self.stream.events
                  if event.name in SEAT_EVENTS and event.data["version"] > stand[event.data["seat_id"]]]
        assert not beyond, beyond


def held_of(db, org, event, area):
    return area_row(db, org, event, area).held
