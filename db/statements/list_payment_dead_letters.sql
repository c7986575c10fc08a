-- list_payment_dead_letters - deliveries of payment providers that we could not process, oldest first.
--
-- $1 text org
-- $2 timestamptz, $3 uuid, $4 text, $5 text: received_at, intent, key and status of the last one seen
-- (nulls: from the start), $6 int4 rows at the most
-- Columns: intent, key, status, attempts, error, received_at, event, intent_status, purpose, subject.
-- Index: payment_deliveries_dead, primary key of payment_intents.
SELECT d.intent_id AS intent, d.provider_key AS key, d.status, d.attempts, d.error, d.received_at,
    i.event_id AS event, i.status AS intent_status, i.purpose, i.subject_id AS subject
FROM payment_deliveries d
JOIN payment_intents i ON i.intent_id = d.intent_id AND i.org_id = $1::text
WHERE d.state = 'dead'
    AND ($2::timestamptz IS NULL
         OR (d.received_at, d.intent_id, d.provider_key, d.status)
             > ($2::timestamptz, $3::uuid, $4::text, $5::text))
ORDER BY d.received_at, d.intent_id, d.provider_key, d.status
LIMIT $6::int4
