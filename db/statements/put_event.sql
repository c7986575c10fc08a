-- put_event - writes an event's row as given, raises its version, and audits the change.
--
-- $1 text org, $2 text event, $3 int8 the version that was read (0: there was no such event)
-- $4 text kind, $5 text name, $6 text status, $7 text currency
-- $8 int4 hold_ttl, $9 int4 extend_by, $10 int4 max_hold, $11 int4 max_seats_per_hold,
-- $12 int4 max_seats_per_user, $13 bool one_hold_per_user, $14 bool no_single_seat_gap,
-- $15 int4 payment_timeout, $16 int4 rehold_cooldown, $17 text waitlist_mode, $18 int4 waitlist_offer_ttl
-- $19 text actor, $20 text request id, $21 text JSON of what the change was, for the audit,
-- $22 text client's address, $23 text user agent, $24 float8[] focal point: x, y, or empty
-- Columns: version. No row: somebody changed the event meanwhile; read it again.
-- After lock_event, except for an event that is new. Index: primary key of events.
WITH fresh AS (
    INSERT INTO events (org_id, event_id, kind, name, status, currency, hold_ttl, extend_by,
        max_hold, max_seats_per_hold, max_seats_per_user, one_hold_per_user, no_single_seat_gap,
        payment_timeout, rehold_cooldown, waitlist_mode, waitlist_offer_ttl, focal_x, focal_y)
    SELECT $1::text, $2::text, $4::text, $5::text, $6::text, $7::text, $8::int4, $9::int4,
        $10::int4, $11::int4, $12::int4, $13::bool, $14::bool, $15::int4, $16::int4, $17::text, $18::int4,
        ($24::float8[])[1], ($24::float8[])[2]
    WHERE $3::int8 = 0
    ON CONFLICT (org_id, event_id) DO NOTHING
    RETURNING version),
changed AS (
    UPDATE events e SET kind = $4, name = $5, status = $6, currency = $7, hold_ttl = $8,
        extend_by = $9, max_hold = $10, max_seats_per_hold = $11, max_seats_per_user = $12,
        one_hold_per_user = $13, no_single_seat_gap = $14, payment_timeout = $15,
        rehold_cooldown = $16, waitlist_mode = $17, waitlist_offer_ttl = $18,
        focal_x = $24[1], focal_y = $24[2],
        version = e.version + 1, updated_at = clock_timestamp()
    WHERE e.org_id = $1 AND e.event_id = $2 AND e.version = $3 AND $3 <> 0
    RETURNING version),
done AS (SELECT version FROM fresh UNION ALL SELECT version FROM changed),
aud AS (
    INSERT INTO audit_log (at, version, action, org_id, event_id, actor, request_id, meta, client_ip, user_agent)
    SELECT clock_timestamp(), version, 'event_changed', $1, $2, $19::text, $20::text, $21::text::jsonb, $22::text, $23::text
    FROM done)
SELECT version FROM done
