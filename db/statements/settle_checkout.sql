-- settle_checkout - moves a checkout and its payment on, and leaves word of it.
--
-- $1 text org, $2 uuid checkout, $3 uuid intent (null: none), $4 text the intent's new status
-- $5 text the checkout's new status (null: as it is), $6 text why it ended (null: it didn't)
-- $7 text a client's own words, $8 uuid[] the holds that it has now (null: as before)
-- $9 text audit action (null: none), $10 text domain event (null: none)
-- $11 text actor, $12 text request id, $13 text client's address, $14 text user agent
-- Columns: none that matter. Behind lock_checkout, and behind what the holds went through.
-- An intent that expires is asked about once more (take_due_intents). P0001 when rows changed are not those promised. Index: primary keys.
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
old AS MATERIALIZED ( -- the holds that were paid for know whom to write to
    SELECT max(h.customer_email) AS email
    FROM checkouts c CROSS JOIN LATERAL unnest(c.hold_ids) AS u(hold)
    CROSS JOIN LATERAL (
        SELECT customer_email FROM seat_holds s WHERE s.hold_id = u.hold AND s.org_id = c.org_id OFFSET 0) h
    WHERE c.checkout_id = $2::uuid AND c.org_id = $1::text),
pay AS (
    UPDATE payment_intents SET status = $4::text,
        ask_at = CASE $4::text WHEN 'pending' THEN ask_at WHEN 'expired' THEN clk.now + interval '60 seconds' END,
        settled_at = CASE WHEN $4::text = 'pending' THEN NULL ELSE clk.now END
    FROM clk WHERE intent_id = $3::uuid
    RETURNING amount, status),
chk AS (
    UPDATE checkouts SET status = COALESCE($5::text, status), reason = COALESCE($6::text, reason),
        notes = COALESCE($7::text, notes), hold_ids = COALESCE($8::uuid[], hold_ids), updated_at = clk.now
    FROM clk WHERE checkout_id = $2::uuid AND org_id = $1::text
    RETURNING event_id, user_id, hold_ids, amount, currency, reason),
marked AS ( -- holds that were taken anew for a late success
    UPDATE seat_holds h SET checkout_id = $2::uuid
    FROM unnest($8::uuid[]) AS u(hold), chk
    WHERE h.hold_id = u.hold AND h.org_id = $1::text AND h.event_id = chk.event_id
    RETURNING 1),
tickets AS MATERIALIZED (
    SELECT COALESCE(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
        'ticket_id', t.ticket, 'seat_id', h.seat_id, 'area_id', h.area_id)) ORDER BY u.pos, h.line), '[]') AS list
    FROM chk CROSS JOIN LATERAL unnest(chk.hold_ids) WITH ORDINALITY AS u(hold, pos)
    CROSS JOIN LATERAL (
        SELECT line, seat_id, area_id, ticket_ids FROM seat_holds s
        WHERE s.hold_id = u.hold AND s.org_id = $1::text AND s.status::text = 'converted' OFFSET 0) h
    CROSS JOIN LATERAL unnest(h.ticket_ids) AS t(ticket)),
aud AS (
    INSERT INTO audit_log (at, action, org_id, event_id, user_id, actor, reason, request_id, meta, client_ip, user_agent)
    SELECT clk.now, $9::text::audit_action, $1::text, chk.event_id, chk.user_id, $11::text, $6::text, $12::text,
        jsonb_strip_nulls(jsonb_build_object('checkout_id', $2::uuid, 'intent_id', $3::uuid,
            'holds', chk.hold_ids, 'amount', COALESCE(pay.amount, chk.amount), 'notes', $7::text)),
        $13::text, $14::text
    FROM clk, chk LEFT JOIN pay ON true
    WHERE $9::text IS NOT NULL
    RETURNING 1),
told AS (
    INSERT INTO outbox (org_id, event_id, kind, email, payload)
    SELECT $1::text, chk.event_id, $10::text, old.email,
        jsonb_strip_nulls(jsonb_build_object('checkout_id', $2::uuid, 'event_id', chk.event_id,
            'user_id', chk.user_id, 'holds', chk.hold_ids, 'amount', COALESCE(pay.amount, chk.amount),
            'currency', chk.currency, 'tickets', tickets.list, 'intent_id', $3::uuid,
            'reason', $6::text, 'at', clk.now))
    FROM clk, old, tickets, chk LEFT JOIN pay ON true
    WHERE $10::text IS NOT NULL
    RETURNING 1)
SELECT must_equal(1, (SELECT count(*) FROM chk), 'checkouts settled')
   AND must_equal(CASE WHEN $3::uuid IS NULL THEN 0 ELSE 1 END, (SELECT count(*) FROM pay), 'payments settled')
   AND must_equal(CASE WHEN $9::text IS NULL THEN 0 ELSE 1 END, (SELECT count(*) FROM aud), 'audited')
   AND must_equal(CASE WHEN $10::text IS NULL THEN 0 ELSE 1 END, (SELECT count(*) FROM told), 'told')
   AND (SELECT count(*) FROM marked) >= 0 AS kept
