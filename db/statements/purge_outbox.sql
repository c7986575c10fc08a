-- purge_outbox - forgets events of the outbox that are old enough.
--
-- $1 int8 for how many microseconds they are kept, $2 int4 rows at the most
-- Columns: purged. What wasn't told for so long is nobody's news any more: a delivery ends long
-- before (delivery_give_up). Index: primary key.
WITH oldest AS MATERIALIZED (
    SELECT o.id, o.created_at FROM outbox o
    WHERE o.id <= (SELECT routed_to FROM outbox_cursor)
    ORDER BY o.id LIMIT $2::int4),
gone AS (
    DELETE FROM outbox o USING oldest d
    WHERE o.id = d.id AND d.created_at < clock_timestamp() - $1::int8 * interval '1 microsecond'
    RETURNING 1)
SELECT count(*) AS purged FROM gone
