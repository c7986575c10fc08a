-- warm_events - events that the warm tier should know: on sale, or with a seat held.
--
-- $1 text org, $2 text event ('': all; one that is named counts in any case),
-- $3 text org, $4 text event: those after this key ('', '' begins), $5 int4 rows at the most
-- Columns: org, event, in order of their key.
-- Index: primary key of events, seat_holds_backstop (its order is asked for, so that no other index will do).
SELECT e.org_id AS org, e.event_id AS event
FROM events e
WHERE (e.org_id, e.event_id) > ($3::text, $4::text)
  AND ($1::text = '' OR e.org_id = $1) AND ($2::text = '' OR e.event_id = $2)
  AND ($2 <> '' OR e.status = 'on_sale' OR (
      SELECT h.seat_id FROM seat_holds h
      WHERE h.org_id = e.org_id AND h.event_id = e.event_id AND h.seat_id > '' AND h.status = 'active'
      ORDER BY h.seat_id LIMIT 1) IS NOT NULL)
ORDER BY e.org_id, e.event_id
LIMIT $5::int4
