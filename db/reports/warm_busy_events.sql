-- warm_busy_events - the events with a seat held, the one that was held last first.
--
-- Looks at every active line: asked after Redis was lost, or one of its events is doubted; once a second at the most.
SELECT h.org_id, h.event_id
FROM seat_holds h
WHERE h.status = 'active' AND h.seat_id IS NOT NULL
GROUP BY 1, 2
ORDER BY max(h.created_at) DESC, 1, 2
LIMIT 1000
