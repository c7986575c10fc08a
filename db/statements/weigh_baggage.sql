-- weigh_baggage - a bag was weighed: the check-in is complete, or waits for a surcharge.
--
-- $1 text org, $2 uuid check-in, $3 int4 hundredths of a kilogram, $4 bool too heavy to be free
-- Of a new payment: $5 uuid intent, $6 int8 amount, $7 text currency, $8 text provider
-- $9 text actor, $10 text request id, $11 text client's address, $12 text user agent
-- Columns: code, state and intent (as they are now; null: none). No row: there is no such check-in.
-- code: ok | same (complete, and nothing more is to be paid) | closed (the flight is cancelled) |
--   complete (it is complete, and this would have to be paid for)
-- Behind lock_checkin. A payment that nobody made is replaced (void). Nobody is charged here and
-- nobody is asked later (ask_at null): whoever has the intent's id pays, and the webhook tells.
-- P0001 when rows changed are not those promised. Indexes: primary keys.
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
c AS MATERIALIZED (
    SELECT c.*, CASE
        WHEN c.state = 'COMPLETED' THEN CASE WHEN i.status = 'succeeded' OR NOT $4::bool THEN 'same' ELSE 'complete' END
        WHEN e.status = 'cancelled' THEN 'closed' ELSE 'ok' END AS code
    FROM checkins c
    JOIN events e ON e.org_id = c.org_id AND e.event_id = c.event_id
    LEFT JOIN payment_intents i ON i.intent_id = c.payment_intent_id
    WHERE c.checkin_id = $2::uuid AND c.org_id = $1::text),
ok AS MATERIALIZED (SELECT * FROM c WHERE c.code = 'ok'),
replaced AS (
    UPDATE payment_intents i SET status = 'void', settled_at = clk.now
    FROM clk, ok WHERE i.intent_id = ok.payment_intent_id AND i.status = 'pending'
    RETURNING i.intent_id),
pay AS (
    INSERT INTO payment_intents (intent_id, org_id, event_id, user_id, purpose, subject_id, amount, currency,
        provider, method, status, created_at, deadline_at, give_up_at)
    SELECT $5::uuid, ok.org_id, ok.event_id, ok.passenger_id, 'baggage', ok.checkin_id, $6::int8, $7::text,
        $8::text, '', 'pending', clk.now, clk.now, clk.now
    FROM clk, ok WHERE $4::bool
    RETURNING intent_id, amount, currency),
upd AS (
    UPDATE checkins k SET state = CASE WHEN $4::bool THEN 'WAITING_FOR_PAYMENT' ELSE 'COMPLETED' END,
        baggage_weight = $3::int4 / 100.0, payment_intent_id = pay.intent_id, updated_at = clk.now
    FROM clk, ok LEFT JOIN pay ON true
    WHERE k.checkin_id = ok.checkin_id AND k.org_id = ok.org_id AND k.state IN ('IN_PROGRESS', 'WAITING_FOR_PAYMENT')
    RETURNING k.checkin_id, k.event_id, k.passenger_id, k.state, k.baggage_weight, k.payment_intent_id),
aud AS (
    INSERT INTO audit_log (at, action, org_id, event_id, user_id, actor, request_id, meta, client_ip, user_agent)
    SELECT clk.now, 'baggage_weighed', $1::text, upd.event_id, upd.passenger_id, $9::text, $10::text,
        jsonb_strip_nulls(jsonb_build_object('checkin_id', upd.checkin_id, 'weight_kg', upd.baggage_weight, 'state', upd.state,
            'intent_id', upd.payment_intent_id, 'replaced_intent_id', replaced.intent_id)), $11::text, $12::text
    FROM clk, upd LEFT JOIN replaced ON true
    RETURNING 1),
told AS (
    INSERT INTO outbox (org_id, event_id, kind, payload)
    SELECT $1::text, upd.event_id, CASE WHEN $4::bool THEN 'baggage.payment_required' ELSE 'checkin.completed' END,
        jsonb_strip_nulls(jsonb_build_object('checkin_id', upd.checkin_id, 'event_id', upd.event_id, 'user_id', upd.passenger_id,
            'weight_kg', upd.baggage_weight, 'intent_id', upd.payment_intent_id, 'amount', pay.amount,
            'currency', pay.currency, 'at', clk.now))
    FROM clk, upd LEFT JOIN pay ON true
    RETURNING 1),
kept AS MATERIALIZED (
    SELECT must_equal((SELECT count(*) FROM ok), (SELECT count(*) FROM upd), 'check-ins weighed')
       AND must_equal((SELECT count(*) FROM ok WHERE $4::bool), (SELECT count(*) FROM pay), 'payments begun')
       AND must_equal((SELECT count(*) FROM upd), (SELECT count(*) FROM aud), 'audited')
       AND must_equal((SELECT count(*) FROM upd), (SELECT count(*) FROM told), 'told') AS kept)
SELECT c.code, COALESCE(upd.state, c.state) AS state,
    CASE WHEN upd.checkin_id IS NULL THEN c.payment_intent_id ELSE upd.payment_intent_id END AS intent
FROM kept, c LEFT JOIN upd ON true
