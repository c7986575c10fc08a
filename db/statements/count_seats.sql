-- count_seats - how many seats an event has; removed ones don't count.
--
-- $1 text org, $2 text event
-- Columns: seats. Index: primary key of seats.
SELECT count(*) AS seats FROM seats s
WHERE s.org_id = $1::text AND s.event_id = $2::text AND s.status <> 'removed'
