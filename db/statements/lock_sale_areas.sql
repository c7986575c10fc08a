-- lock_sale_areas - lock_areas for a sale that may give back what its user had bought before: the areas of
-- that, too, in the same order.
--
-- $1 text[] orgs, $2 text[] events, $3 text[] areas: named by the request itself
-- $4 text[] orgs, $5 uuid[] holds: whose areas are locked too
-- $6 text org, $7 text event, $8 text user: whose sold areas are locked where the policy is one seat per user
-- Columns: none that matter. Waits, up to lock_timeout (55P03). Behind the lock of the user.
-- status::text: see lock_areas. Index: primary keys of areas, seat_holds and events; seat_holds_user.
WITH named AS MATERIALIZED (
    SELECT org, event, area FROM unnest($1::text[], $2::text[], $3::text[]) AS u(org, event, area)
    UNION
    SELECT h.org_id, h.event_id, h.area_id
    FROM unnest($4::text[], $5::uuid[]) AS u(org, hold)
    CROSS JOIN LATERAL (
        SELECT org_id, event_id, area_id FROM seat_holds s
        WHERE s.hold_id = u.hold AND s.org_id = u.org AND s.area_id IS NOT NULL
          AND s.status::text = 'active' OFFSET 0) h
    UNION
    SELECT h.org_id, h.event_id, h.area_id
    FROM events e
    CROSS JOIN LATERAL (
        SELECT org_id, event_id, area_id FROM seat_holds s
        WHERE s.org_id = e.org_id AND s.event_id = e.event_id AND s.user_id = $8::text AND s.area_id IS NOT NULL
          AND s.status IN ('active', 'converted') AND s.status::text = 'converted' OFFSET 0) h
    WHERE e.org_id = $6::text AND e.event_id = $7::text AND COALESCE(e.one_seat_per_user, e.kind = 'flight')),
ordered AS MATERIALIZED (SELECT * FROM named ORDER BY org, event, area),
locked AS MATERIALIZED (
    SELECT 1 FROM ordered o
    CROSS JOIN LATERAL (
        SELECT 1 FROM areas a
        WHERE a.org_id = o.org AND a.event_id = o.event AND a.area_id = o.area
        FOR NO KEY UPDATE) l)
SELECT count(*) FROM locked
