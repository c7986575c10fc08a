-- keep_payment_delivery - keeps a provider's delivery that we failed to process, to be tried again.
--
-- $1 uuid intent, $2 text the provider's key of this delivery, $3 text status: succeeded | failed
-- $4 int8 microseconds until the first try, $5 text what went wrong
-- Columns: status (the intent's); no row: no such intent.
-- One that is kept already keeps its schedule, and one that took effect meanwhile stays done.
-- Index: primary keys.
WITH intent AS MATERIALIZED (SELECT i.intent_id, i.status FROM payment_intents i WHERE i.intent_id = $1::uuid),
kept AS (
    INSERT INTO payment_deliveries AS d (intent_id, provider_key, status, state, next_at, error)
    SELECT intent.intent_id, $2::text, $3::text, 'retry',
        clock_timestamp() + $4::int8 * interval '1 microsecond', $5::text
    FROM intent
    ON CONFLICT (intent_id, provider_key, status) DO UPDATE SET error = EXCLUDED.error
    WHERE d.state <> 'done'
    RETURNING 1)
SELECT intent.status FROM intent
