-- warm_busy_events - the events with a seat held, the one that was held last first.
--
-- Looks at every active line: asked once after Redis was away, restarted or wiped.
SELECT h.org_id, h.event_id
FROM seat_holds h
WHERE h.status = 'active' AND h.seat_id IS NOT NULL
GROUP BY 1, 2
ORDER BY max(h.created_at) DESC, 1, 2
LIMIT 1000
