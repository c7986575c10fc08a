-- lock_areas - locks the rows of the areas that a batch will move, in key order.
--
-- $1 text[] orgs, $2 text[] events, $3 text[] areas: named by the requests themselves
-- $4 text[] orgs, $5 uuid[] holds: whose areas are locked too
-- Columns: none that matter. Waits, up to lock_timeout (55P03).
-- status::text keeps the plan off the partial indexes, which look cheaper than the key while the
-- table is small.
-- Index: primary keys of areas and seat_holds.
WITH named AS MATERIALIZED (
    SELECT org, event, area FROM unnest($1::text[], $2::text[], $3::text[]) AS u(org, event, area)
    UNION
    SELECT h.org_id, h.event_id, h.area_id
    FROM unnest($4::text[], $5::uuid[]) AS u(org, hold)
    CROSS JOIN LATERAL (
        SELECT org_id, event_id, area_id FROM seat_holds s
        WHERE s.hold_id = u.hold AND s.org_id = u.org AND s.area_id IS NOT NULL
          AND s.status::text = 'active' OFFSET 0) h),
ordered AS MATERIALIZED (SELECT * FROM named ORDER BY org, event, area),
locked AS MATERIALIZED (
    SELECT 1 FROM ordered o
    CROSS JOIN LATERAL (
        SELECT 1 FROM areas a
        WHERE a.org_id = o.org AND a.event_id = o.event AND a.area_id = o.area
        FOR NO KEY UPDATE) l)
SELECT count(*) FROM locked
