-- purge_payment_deliveries - forgets what payment providers told us long ago.
--
-- $1 int8 microseconds that they are kept, $2 int4 rows at the most
-- Columns: purged. What is still to be tried stays; a dead letter that nobody replayed goes, too.
-- Index: payment_deliveries_old.
WITH old AS (
    SELECT r.intent_id, r.provider_key, r.status FROM payment_deliveries r
    WHERE r.received_at < clock_timestamp() - $1::int8 * interval '1 microsecond' AND r.state <> 'retry'
    ORDER BY r.received_at
    LIMIT $2::int4
    FOR UPDATE SKIP LOCKED),
gone AS (
    DELETE FROM payment_deliveries d USING old
    WHERE d.intent_id = old.intent_id AND d.provider_key = old.provider_key AND d.status = old.status
    RETURNING 1)
SELECT count(*) AS purged FROM gone
