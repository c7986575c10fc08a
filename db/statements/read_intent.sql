-- read_intent - one payment intent.
--
-- $1 uuid intent
-- Columns: org, event, usr, purpose, subject, amount, currency, provider, method, status.
-- Index: primary key.
SELECT org_id AS org, event_id AS event, user_id AS usr, purpose, subject_id AS subject, amount, currency,
    provider, method, status
FROM payment_intents WHERE intent_id = $1::uuid
