-- area_counts - areas whose counts are not what their lines sum up to.
--
-- $1 text org, $2 text event; empty: all of them. Runs in verify's snapshot, walks whole tables.
SELECT a.org_id, a.event_id, a.area_id, a.held::int8, a.sold::int8,
    COALESCE(l.held, 0)::int8, COALESCE(l.sold, 0)::int8
FROM (SELECT * FROM areas WHERE ($1 = '' OR org_id = $1) AND ($2 = '' OR event_id = $2)) a
LEFT JOIN (
    SELECT org_id, event_id, area_id, sum(quantity) FILTER (WHERE status = 'active') AS held,
        sum(quantity) FILTER (WHERE status = 'converted') AS sold
    FROM seat_holds
    WHERE area_id IS NOT NULL AND ($1 = '' OR org_id = $1) AND ($2 = '' OR event_id = $2)
    GROUP BY 1, 2, 3) l USING (org_id, event_id, area_id)
WHERE a.held <> COALESCE(l.held, 0) OR a.sold <> COALESCE(l.sold, 0)
ORDER BY 1, 2, 3 LIMIT 1000
