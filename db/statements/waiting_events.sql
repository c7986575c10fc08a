-- waiting_events - the events at which anybody waits for a seat, in the order of their keys.
--
-- $1 text org, $2 text event: behind which one; $3 int4 how many at the most
-- Columns: org, event, newest (place of the last who came). Fewer rows than asked for: the last one was looked at.
-- One look into the index for each event, however many wait there. Index: waitlist_queue.
WITH RECURSIVE e AS (
    (SELECT w.org_id, w.event_id, 1 AS n FROM waitlist w
     WHERE w.status = 'QUEUED' AND (w.org_id, w.event_id) > ($1::text COLLATE "C", $2::text COLLATE "C")
     ORDER BY w.org_id, w.event_id LIMIT 1)
    UNION ALL
    SELECT x.org_id, x.event_id, e.n + 1 FROM e
    CROSS JOIN LATERAL (
        SELECT w.org_id, w.event_id FROM waitlist w
        WHERE w.status = 'QUEUED' AND (w.org_id, w.event_id) > (e.org_id, e.event_id)
        ORDER BY w.org_id, w.event_id LIMIT 1) x
    WHERE e.n < $3::int4)
SELECT e.org_id AS org, e.event_id AS event, l.place AS newest
FROM e CROSS JOIN LATERAL (
    SELECT w.place FROM waitlist w
    WHERE w.org_id = e.org_id AND w.event_id = e.event_id AND w.status = 'QUEUED'
    ORDER BY w.place DESC LIMIT 1) l
