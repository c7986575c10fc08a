-- take_payment_deliveries - deliveries of payment providers that are to be processed once more.
--
-- $1 int8 microseconds of the first pause, $2 int4 tries, $3 int4 rows at the most
-- Columns: intent, key, status, dead (its tries are used up: it is for an admin now).
-- What is taken is due again after a pause four times as long as the one before; who succeeds sets
-- it to done. So a node that dies meanwhile loses one try and no delivery. Nodes share the work:
-- SKIP LOCKED passes over what another takes in this moment. Index: payment_deliveries_due.
UPDATE payment_deliveries d
SET state = CASE WHEN d.attempts < $2::int4 THEN 'retry' ELSE 'dead' END,
    attempts = LEAST(d.attempts + 1, $2::int4),
    next_at = CASE WHEN d.attempts < $2::int4
        THEN clock_timestamp() + $1::int8 * power(4, (d.attempts + 1) % $2::int4) * interval '1 microsecond' END
FROM (
    SELECT r.intent_id, r.provider_key, r.status FROM payment_deliveries r
    WHERE r.state = 'retry' AND r.next_at <= now()
    ORDER BY r.next_at
    LIMIT $3::int4
    FOR UPDATE SKIP LOCKED) due
WHERE d.intent_id = due.intent_id AND d.provider_key = due.provider_key AND d.status = due.status
RETURNING d.intent_id AS intent, d.provider_key AS key, d.status, d.state = 'dead' AS dead
