-- read_events - status and policy of events, for the engine, the API and memory.
--
-- $1 text[] orgs, $2 text[] events
-- Columns (a row per event that exists): pos (1.. of the event asked for), org, event, kind, name,
-- status, currency, version, hold_ttl, extend_by, max_hold, max_seats_per_hold, max_seats_per_user,
-- one_hold_per_user, one_seat_per_user, no_single_seat_gap, payment_timeout, rehold_cooldown,
-- waitlist_mode, waitlist_offer_ttl, focal_x, focal_y (null: none).
-- Index: primary key of events.
SELECT u.pos, e.org_id AS org, e.event_id AS event, e.kind, e.name, e.status, e.currency, e.version,
    e.hold_ttl, e.extend_by, e.max_hold, e.max_seats_per_hold, e.max_seats_per_user,
    e.one_hold_per_user, COALESCE(e.one_seat_per_user, e.kind = 'flight') AS one_seat_per_user,
    e.no_single_seat_gap, e.payment_timeout, e.rehold_cooldown,
    e.waitlist_mode, e.waitlist_offer_ttl, e.focal_x, e.focal_y
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(org, event, pos)
JOIN events e ON e.org_id = u.org AND e.event_id = u.event
ORDER BY u.pos
