-- purge_told - forgets how far was told what is told, and what nobody tells any more.
--
-- $1 int8 for how many microseconds they are kept, $2 int4 rows at the most
-- Columns: purged. Index: deliveries_age.
WITH old AS MATERIALIZED (
    SELECT d.org_id, d.channel, d.subject FROM deliveries d
    WHERE d.updated_at < clock_timestamp() - $1::int8 * interval '1 microsecond'
      AND (d.told_to >= d.todo_to OR d.channel = 'mail' OR NOT EXISTS (SELECT FROM webhooks w WHERE w.org_id = d.org_id))
    ORDER BY d.updated_at LIMIT $2::int4
    FOR UPDATE SKIP LOCKED),
gone AS (
    DELETE FROM deliveries d USING old
    WHERE d.org_id = old.org_id AND d.channel = old.channel AND d.subject = old.subject
    RETURNING 1)
SELECT count(*) AS purged FROM gone
