-- sales - the events on sale and how far they are, the busiest first.
--
-- No parameters. Columns: org, event, available, held, sold (seats; a hold that is over counts as available), events
-- (on sale, in all). Counts the seats of the events that it shows.
SELECT e.org_id, e.event_id, s.available, s.held, s.sold, e.events
FROM (
    SELECT o.org_id, o.event_id, count(*) OVER () AS events, (
        SELECT count(*) FROM seat_holds h
        WHERE h.org_id = o.org_id AND h.event_id = o.event_id AND h.seat_id IS NOT NULL AND h.status = 'active') AS active
    FROM events o WHERE o.status = 'on_sale'
    ORDER BY active DESC, o.org_id, o.event_id
    LIMIT 20) e
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE status = 'available'
            OR (status = 'held' AND NOT in_payment AND held_until <= clock_timestamp())) AS available,
        count(*) FILTER (WHERE status = 'held' AND (in_payment OR held_until > clock_timestamp())) AS held,
        count(*) FILTER (WHERE status = 'sold') AS sold
    FROM seats t WHERE t.org_id = e.org_id AND t.event_id = e.event_id) s
ORDER BY e.active DESC, 1, 2
