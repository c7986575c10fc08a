-- settle_baggage - what became of the payment of a surcharge, for it and its check-in.
--
-- $1 uuid intent, $2 bool it is paid (else it failed)
-- $3 text actor, $4 text request id, $5 text client's address, $6 text user agent (null: the system)
-- Columns: plan, status (the intent's, as it is now). No row: there is no such intent.
-- plan: pay (the check-in is complete; a newer payment that nobody made is void) | fail (it goes on, and
--   may be weighed again) | refund (paid, though the check-in is complete without it) |
--   nothing (it was decided before, or is about a payment that another one has replaced)
-- Behind lock_checkin, so that each state is the newest: a success counts whenever it comes, and
-- nothing undoes it. P0001 when rows changed are not those promised. Indexes: primary keys.
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
p AS MATERIALIZED (
    SELECT i.intent_id, i.status, i.amount, i.currency, c.checkin_id, c.org_id, c.event_id, c.passenger_id,
        c.payment_intent_id AS current, CASE
        WHEN $2::bool AND i.status IN ('pending', 'failed', 'void') THEN
            CASE WHEN c.state = 'COMPLETED' THEN 'refund' ELSE 'pay' END
        WHEN NOT $2::bool AND i.status = 'pending' THEN 'fail'
        ELSE 'nothing' END AS plan
    FROM payment_intents i JOIN checkins c ON c.checkin_id = i.subject_id AND c.org_id = i.org_id
    WHERE i.intent_id = $1::uuid AND i.purpose = 'baggage'),
act AS MATERIALIZED (SELECT * FROM p WHERE p.plan <> 'nothing'),
paid AS (
    UPDATE payment_intents i SET settled_at = clk.now, status = CASE
        WHEN i.intent_id <> a.intent_id THEN 'void'
        WHEN a.plan = 'pay' THEN 'succeeded' WHEN a.plan = 'refund' THEN 'refund_required' ELSE 'failed' END
    FROM clk, act a
    WHERE i.intent_id = a.intent_id OR (a.plan = 'pay' AND i.intent_id = a.current AND i.status = 'pending')
    RETURNING i.intent_id, i.status),
upd AS (
    UPDATE checkins c SET state = CASE WHEN a.plan = 'pay' THEN 'COMPLETED' ELSE 'IN_PROGRESS' END,
        payment_intent_id = a.intent_id, updated_at = clk.now
    FROM clk, act a
    WHERE c.checkin_id = a.checkin_id AND c.org_id = a.org_id
      AND (a.plan = 'pay' AND c.state IN ('IN_PROGRESS', 'WAITING_FOR_PAYMENT')
           OR a.plan = 'fail' AND c.state = 'WAITING_FOR_PAYMENT' AND c.payment_intent_id = a.intent_id)
    RETURNING c.state, c.baggage_weight),
aud AS (
    INSERT INTO audit_log (at, action, org_id, event_id, user_id, actor, request_id, meta, client_ip, user_agent)
    SELECT clk.now, CASE a.plan WHEN 'pay' THEN 'baggage_paid' WHEN 'fail' THEN 'baggage_not_paid'
            ELSE 'refund_required' END::audit_action,
        a.org_id, a.event_id, a.passenger_id, $3::text, $4::text,
        jsonb_strip_nulls(jsonb_build_object('checkin_id', a.checkin_id, 'intent_id', a.intent_id, 'amount', a.amount,
            'state', upd.state, 'replaced_intent_id', CASE WHEN a.current <> a.intent_id AND a.plan = 'pay' THEN a.current END)),
        $5::text, $6::text
    FROM clk, act a LEFT JOIN upd ON true
    RETURNING 1),
told AS (
    INSERT INTO outbox (org_id, event_id, kind, payload)
    SELECT a.org_id, a.event_id, CASE a.plan WHEN 'pay' THEN 'checkin.completed' WHEN 'fail' THEN 'payment.failed'
            ELSE 'payment.refund_required' END,
        jsonb_strip_nulls(jsonb_build_object('checkin_id', a.checkin_id, 'event_id', a.event_id, 'user_id', a.passenger_id,
            'weight_kg', upd.baggage_weight, 'intent_id', a.intent_id, 'amount', a.amount, 'currency', a.currency, 'at', clk.now))
    FROM clk, act a LEFT JOIN upd ON true
    RETURNING 1),
kept AS MATERIALIZED (
    SELECT must_equal((SELECT count(*) FROM act), (SELECT count(*) FROM paid WHERE intent_id = $1::uuid), 'payments settled')
       AND must_equal((SELECT count(*) FROM act WHERE plan <> 'refund'), (SELECT count(*) FROM upd), 'check-ins settled')
       AND must_equal((SELECT count(*) FROM act), (SELECT count(*) FROM aud), 'audited')
       AND must_equal((SELECT count(*) FROM act), (SELECT count(*) FROM told), 'told') AS kept)
SELECT p.plan, COALESCE(paid.status, p.status) AS status
FROM kept, p LEFT JOIN paid ON paid.intent_id = p.intent_id
