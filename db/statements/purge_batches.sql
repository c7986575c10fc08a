-- purge_batches - forgets ids of transactions whose outcome nobody can still ask for.
--
-- $1 uuid: ids below go (UUIDv7 are ordered by their time), $2 int4 rows at the most
-- Columns: purged. Index: primary key of batches.
WITH gone AS (
    DELETE FROM batches WHERE batch_id IN (
        SELECT b.batch_id FROM batches b WHERE b.batch_id < $1::uuid ORDER BY b.batch_id LIMIT $2::int4)
    RETURNING 1)
SELECT count(*) AS purged FROM gone
