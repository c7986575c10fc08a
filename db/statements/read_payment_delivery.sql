-- read_payment_delivery - what a payment provider told under one key, for whoever replays it.
--
-- $1 text org, $2 uuid intent, $3 text the provider's key
-- Columns: status; no row: this organization has none such. Where both were told under the key: the
-- dead letter first, of two such "succeeded", which decides. Index: primary keys.
SELECT d.status FROM payment_deliveries d
JOIN payment_intents i ON i.intent_id = d.intent_id AND i.org_id = $1::text
WHERE d.intent_id = $2::uuid AND d.provider_key = $3::text
ORDER BY d.state = 'dead' DESC, d.status DESC
LIMIT 1
