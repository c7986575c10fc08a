-- add_delivery - notes what a provider told about an intent, once.
--
-- $1 uuid intent, $2 text the provider's key of this delivery, $3 text status: succeeded | failed
-- Columns: new (false: it took effect before; nothing more is to be done). Behind lock_checkout.
-- One that failed before, or lies among the dead letters, takes effect now.
-- Index: primary key.
WITH ins AS (
    INSERT INTO payment_deliveries (intent_id, provider_key, status, state, attempts)
    VALUES ($1::uuid, $2::text, $3::text, 'done', 1)
    ON CONFLICT (intent_id, provider_key, status) DO UPDATE
        SET state = 'done', attempts = payment_deliveries.attempts + 1, next_at = NULL, error = NULL
        WHERE payment_deliveries.state <> 'done'
    RETURNING 1)
SELECT EXISTS (SELECT 1 FROM ins) AS new
