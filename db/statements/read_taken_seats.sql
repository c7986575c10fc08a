-- read_taken_seats - held and sold seats of events that are on sale, to warm the hot table at start.
--
-- $1 text org, $2 text event, $3 text seat: rows after this key ('', '', '' begins), $4 int4 rows at the most
-- Columns: org, event, seat, status, in_payment, version, hold, usr, until: in order of their key.
-- All seats in that key order are looked at: only at start. Index: primary keys of seats and events.
SELECT s.org_id AS org, s.event_id AS event, s.seat_id AS seat, s.status, s.in_payment, s.version,
    s.hold_id AS hold, s.user_id AS usr, s.held_until AS until
FROM seats s JOIN events e ON e.org_id = s.org_id AND e.event_id = s.event_id
WHERE (s.org_id, s.event_id, s.seat_id) > ($1::text, $2::text, $3::text)
  AND s.status IN ('held', 'sold') AND e.status = 'on_sale'
ORDER BY s.org_id, s.event_id, s.seat_id
LIMIT $4::int4
