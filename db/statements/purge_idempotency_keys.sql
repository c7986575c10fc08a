-- purge_idempotency_keys - forgets answers that were kept long enough.
--
-- $1 int8 microseconds that they are kept, $2 int4 rows at the most
-- Columns: purged. Index: idempotency_keys_age, then the primary key.
WITH old AS MATERIALIZED (
    SELECT org_id, user_id, method, path, key FROM idempotency_keys k
    WHERE k.created_at < now() - $1::int8 * interval '1 microsecond'
    ORDER BY k.created_at LIMIT $2::int4),
gone AS (
    DELETE FROM idempotency_keys k USING old o
    WHERE k.org_id = o.org_id AND k.user_id = o.user_id AND k.method = o.method AND k.path = o.path
      AND k.key = o.key
    RETURNING 1)
SELECT count(*) AS purged FROM gone
