-- put_event - writes an event's row as given, raises its version, and audits the change.
--
-- $1 text org, $2 text event, $3 int8 the version that was read (0: there was no such event)
-- $4 text kind, $5 text name, $6 text status, $7 text currency
-- $8 int4 hold_ttl, $9 int4 extend_by, $10 int4 max_hold, $11 int4 max_seats_per_hold,
-- $12 int4 max_seats_per_user, $13 bool one_hold_per_user, $14 bool one_seat_per_user, $15 bool no_single_seat_gap,
-- $16 int4 payment_timeout, $17 int4 rehold_cooldown, $18 text waitlist_mode, $19 int4 waitlist_offer_ttl
-- $20 text actor, $21 text request id, $22 text JSON of what the change was, for the audit,
-- $23 text client's address, $24 text user agent, $25 float8[] focal point: x, y, or empty
-- Columns: version. No row: somebody changed the event meanwhile; read it again.
-- After lock_event, except for an event that is new. Index: primary key of events.
WITH fresh AS (
    INSERT INTO events (org_id, event_id, kind, name, status, currency, hold_ttl, extend_by,
        max_hold, max_seats_per_hold, max_seats_per_user, one_hold_per_user, one_seat_per_user, no_single_seat_gap,
        payment_timeout, rehold_cooldown, waitlist_mode, waitlist_offer_ttl, focal_x, focal_y)
    SELECT $1::text, $2::text, $4::text, $5::text, $6::text, $7::text, $8::int4, $9::int4,
        $10::int4, $11::int4, $12::int4, $13::bool, $14::bool, $15::bool, $16::int4, $17::int4, $18::text, $19::int4,
        ($25::float8[])[1], ($25::float8[])[2]
    WHERE $3::int8 = 0
    ON CONFLICT (org_id, event_id) DO NOTHING
    RETURNING version),
changed AS (
    UPDATE events e SET kind = $4, name = $5, status = $6, currency = $7, hold_ttl = $8,
        extend_by = $9, max_hold = $10, max_seats_per_hold = $11, max_seats_per_user = $12,
        one_hold_per_user = $13, one_seat_per_user = $14, no_single_seat_gap = $15, payment_timeout = $16,
        rehold_cooldown = $17, waitlist_mode = $18, waitlist_offer_ttl = $19,
        focal_x = $25[1], focal_y = $25[2],
        version = e.version + 1, updated_at = clock_timestamp()
    WHERE e.org_id = $1 AND e.event_id = $2 AND e.version = $3 AND $3 <> 0
    RETURNING version),
done AS (SELECT version FROM fresh UNION ALL SELECT version FROM changed),
aud AS (
    INSERT INTO audit_log (at, version, action, org_id, event_id, actor, request_id, meta, client_ip, user_agent)
    SELECT clock_timestamp(), version, 'event_changed', $1, $2, $20::text, $21::text, $22::text::jsonb, $23::text, $24::text
    FROM done)
SELECT version FROM done
