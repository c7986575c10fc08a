-- purge_occupancy - forgets snapshots of occupancy that are old enough.
--
-- $1 int8 for how many microseconds they are kept, $2 int4 rows at the most
-- Columns: purged. Index: occupancy_snapshots_age, and the primary key.
WITH gone AS (
    DELETE FROM occupancy_snapshots o USING (
        SELECT s.org_id, s.event_id, s.at FROM occupancy_snapshots s
        WHERE s.at < clock_timestamp() - $1::int8 * interval '1 microsecond'
        ORDER BY s.at LIMIT $2::int4) d
    WHERE o.org_id = d.org_id AND o.event_id = d.event_id AND o.at = d.at
    RETURNING 1)
SELECT count(*) AS purged FROM gone
