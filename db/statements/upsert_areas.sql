-- upsert_areas - adds general-admission areas, and gives those that stand their name, capacity and price.
--
-- $1 text org, $2 text event
-- $3 text[] area, $4 text[] name, $5 int4[] capacity, $6 int8[] price: no area twice
-- $7 text actor, $8 text request id, $9 text client's address, $10 text user agent
-- Columns (a row per area, in order of $3): area, what (added | changed | same | short: held and
-- sold are more than the new capacity; nothing was done), held, sold, version.
-- After lock_event, lock_areas and reclaim_areas: a CHECK is judged on the row of this statement's
-- snapshot, so a row that changed while this one waited would fail it.
-- Index: primary key of areas.
WITH req AS MATERIALIZED (
    SELECT $1::text AS org, $2::text AS event, u.* FROM unnest($3::text[], $4::text[], $5::int4[], $6::int8[]) WITH ORDINALITY
    AS u(area, name, capacity, price, pos)),
lk AS MATERIALIZED (
    SELECT r.*, a.area_id IS NOT NULL AS old, a.held, a.sold, a.version,
        (a.name, a.capacity, a.price) IS DISTINCT FROM (r.name, r.capacity, r.price) AS differs
    FROM (SELECT * FROM req ORDER BY area) r
    LEFT JOIN LATERAL (
        SELECT * FROM areas t
        WHERE t.org_id = r.org AND t.event_id = r.event AND t.area_id = r.area
        FOR NO KEY UPDATE) a ON true),
judged AS MATERIALIZED (
    SELECT l.*, CASE WHEN NOT old THEN 'added' WHEN held + sold > capacity THEN 'short'
        WHEN differs THEN 'changed' ELSE 'same' END AS what
    FROM lk l),
upd AS (
    UPDATE areas a SET name = j.name, capacity = j.capacity, price = j.price, version = a.version + 1
    FROM judged j
    WHERE j.what = 'changed' AND a.org_id = j.org AND a.event_id = j.event AND a.area_id = j.area
    RETURNING a.area_id, a.version, a.capacity),
ins AS (
    INSERT INTO areas (org_id, event_id, area_id, name, capacity, price)
    SELECT $1, $2, area, name, capacity, price FROM judged WHERE what = 'added'
    RETURNING 1),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) AS changed FROM upd),
aud AS (
    INSERT INTO audit_log (at, version, action, quantity, org_id, event_id, area_id, actor, request_id,
        client_ip, user_agent)
    SELECT clk.now, u.version, 'area_changed', NULLIF(u.capacity, 0), $1, $2, u.area_id, $7::text, $8::text, $9::text, $10::text
    FROM clk, upd u)
SELECT j.area, j.what, COALESCE(j.held, 0) AS held, COALESCE(j.sold, 0) AS sold,
    COALESCE(u.version, j.version, 0) AS version
FROM judged j LEFT JOIN upd u ON u.area_id = j.area
ORDER BY j.pos
