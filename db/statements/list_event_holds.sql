-- list_event_holds - the active holds of an event, those that are over among them, in the order of their ids.
--
-- $1 text org, $2 text event, $3 uuid after (the nil one: from the start), $4 timestamptz made until then (null: now),
-- $5 int4 holds at the most
-- Columns: hold, rest (how many there are, with those beyond $5), as_of ($4, or the clock).
-- A page looks at all lines of the event that live or were sold, so pages are big: no index has holds of an event in
-- order, and whose they are may change meanwhile. Index: seat_holds_user (status::text is no other partial index's).
SELECT h.hold_id AS hold, count(*) OVER () AS rest, clk.as_of
FROM (SELECT COALESCE($4::timestamptz, clock_timestamp()) AS as_of OFFSET 0) clk
JOIN seat_holds h ON h.org_id = $1::text AND h.event_id = $2::text AND h.status IN ('active', 'converted')
    AND h.status::text = 'active' AND h.hold_id > $3::uuid AND h.created_at <= clk.as_of
GROUP BY h.hold_id, clk.as_of
ORDER BY h.hold_id
LIMIT $5::int4
