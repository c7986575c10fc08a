-- add_payment - the intent to pay a checkout whose holds were just marked as in payment.
--
-- $1 text org, $2 uuid checkout, $3 uuid intent, $4 text provider, $5 text method
-- Columns: none that matter. The amount is that of the lines in payment: a hold may have been
-- patched since its checkout began. After payment_timeout the provider is asked, and for as long
-- again if it doesn't answer.
-- status::text as in add_checkout. Index: primary keys.
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
c AS MATERIALIZED (
    SELECT c.org_id, c.event_id, c.user_id, c.currency, c.hold_ids, make_interval(secs => e.payment_timeout) AS patience
    FROM checkouts c JOIN events e ON e.org_id = c.org_id AND e.event_id = c.event_id
    WHERE c.checkout_id = $2::uuid AND c.org_id = $1::text),
due AS MATERIALIZED (
    SELECT COALESCE(sum(h.price * h.quantity), 0)::bigint AS amount
    FROM c CROSS JOIN LATERAL unnest(c.hold_ids) AS u(hold)
    CROSS JOIN LATERAL (
        SELECT price, quantity FROM seat_holds s
        WHERE s.hold_id = u.hold AND s.org_id = c.org_id AND s.status::text = 'active' AND s.in_payment OFFSET 0) h),
ins AS (
    INSERT INTO payment_intents (intent_id, org_id, event_id, user_id, purpose, subject_id, amount, currency,
        provider, method, status, created_at, deadline_at, give_up_at, ask_at)
    SELECT $3::uuid, c.org_id, c.event_id, c.user_id, 'checkout', $2::uuid, due.amount, c.currency,
        $4::text, $5::text, 'processing', clk.now, clk.now + c.patience, clk.now + 2 * c.patience, clk.now + c.patience
    FROM clk, c, due
    RETURNING amount),
upd AS (
    UPDATE checkouts SET status = 'paying', intent_id = $3::uuid, amount = ins.amount, updated_at = clk.now
    FROM clk, ins
    WHERE checkout_id = $2::uuid AND org_id = $1::text
    RETURNING 1)
SELECT must_equal(1, (SELECT count(*) FROM upd), 'checkouts in payment') AS kept
