-- hold_count - how many holds there are.
--
-- $1 text org, $2 text event; empty: all of them. Runs in verify's snapshot, walks whole tables.
SELECT count(DISTINCT hold_id) FROM seat_holds
WHERE ($1 = '' OR org_id = $1) AND ($2 = '' OR event_id = $2)
