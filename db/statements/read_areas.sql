-- read_areas - the areas of an event, in order of their names.
--
-- $1 text org, $2 text event
-- Columns: area, name, capacity, held, sold, price, version. Index: primary key of areas.
SELECT a.area_id AS area, a.name, a.capacity, a.held, a.sold, a.price, a.version
FROM areas a
WHERE a.org_id = $1::text AND a.event_id = $2::text
ORDER BY a.name, a.area_id
