-- take_due_intents - payments past their time: their providers are to be asked.
--
-- $1 int4 at the most
-- Columns: org, event, usr, intent, amount, currency, provider, method, last (nobody is asked again
-- after this: it ends as the provider says now, or without payment).
-- Who takes one has it until its next time, which moves away with each asking: then any node may
-- ask again. One that is expired is asked about once more, since a node that heard of its success may
-- have died with it: what isn't paid by then stays as it is. Passes over what another node takes in this moment. Index: payment_intents_due.
WITH due AS MATERIALIZED (
    SELECT i.intent_id, i.status = 'expired' AS over, clock_timestamp() AS now FROM payment_intents i
    WHERE i.ask_at <= now()
    ORDER BY i.ask_at
    LIMIT $1::int4
    FOR NO KEY UPDATE SKIP LOCKED)
UPDATE payment_intents i SET asked = i.asked + 1,
    ask_at = CASE WHEN NOT due.over THEN due.now + LEAST(interval '1 second' * power(2, LEAST(i.asked, 5)),
        GREATEST(i.give_up_at - due.now, interval '1 second')) END
FROM due WHERE i.intent_id = due.intent_id
RETURNING i.org_id AS org, i.event_id AS event, i.user_id AS usr, i.intent_id AS intent, i.amount, i.currency,
    i.provider, i.method, due.over OR i.give_up_at <= due.now AS last
