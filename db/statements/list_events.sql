-- list_events - one page of an organization's events, in order of their ids.
--
-- $1 text org, $2 text: events after this id ('' begins), $3 int4 rows at the most
-- Columns: as read_events, pos being 0.
-- Index: primary key of events.
SELECT 0::bigint AS pos, e.org_id AS org, e.event_id AS event, e.kind, e.name, e.status, e.currency,
    e.version, e.hold_ttl, e.extend_by, e.max_hold, e.max_seats_per_hold, e.max_seats_per_user,
    e.one_hold_per_user, COALESCE(e.one_seat_per_user, e.kind = 'flight') AS one_seat_per_user,
    e.no_single_seat_gap, e.payment_timeout, e.rehold_cooldown,
    e.waitlist_mode, e.waitlist_offer_ttl, e.focal_x, e.focal_y
FROM events e
WHERE e.org_id = $1::text AND e.event_id > $2::text
ORDER BY e.event_id
LIMIT $3::int4
