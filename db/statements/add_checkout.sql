-- add_checkout - a checkout of holds that were just extended, in the same transaction.
--
-- $1 text org, $2 text event, $3 uuid checkout, $4 uuid[] holds (each once, of one user)
-- $5 text actor, $6 text request id, $7 text client's address, $8 text user agent
-- Columns: none that matter; of holds that are not active nothing comes to be. A hold that was in an older checkout is in this one now.
-- A line without a price costs nothing.
-- status::text keeps the plan off the partial indexes, which look cheaper than the key while the
-- table is small. P0001 when rows changed are not those promised. Index: primary keys.
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
mine AS MATERIALIZED (
    SELECT h.* FROM unnest($4::uuid[]) AS u(hold)
    CROSS JOIN LATERAL (
        SELECT hold_id, line, org_id, event_id, price, quantity, user_id FROM seat_holds s
        WHERE s.hold_id = u.hold AND s.org_id = $1::text AND s.status::text = 'active' OFFSET 0) h),
marked AS (
    UPDATE seat_holds h SET checkout_id = $3::uuid
    FROM mine m
    WHERE h.hold_id = m.hold_id AND h.line = m.line AND h.org_id = m.org_id AND h.event_id = m.event_id
    RETURNING 1),
ins AS (
    INSERT INTO checkouts (checkout_id, org_id, event_id, user_id, status, hold_ids, amount, currency, created_at, updated_at)
    SELECT $3::uuid, e.org_id, e.event_id, m.user_id, 'open', $4::uuid[], m.amount, e.currency, clk.now, clk.now
    FROM clk, (SELECT min(user_id) AS user_id, COALESCE(sum(price * quantity), 0)::bigint AS amount FROM mine) m, events e
    WHERE e.org_id = $1::text AND e.event_id = $2::text AND m.user_id IS NOT NULL
    RETURNING user_id, amount),
aud AS (
    INSERT INTO audit_log (at, action, org_id, event_id, user_id, actor, request_id, meta, client_ip, user_agent)
    SELECT clk.now, 'checkout_started'::audit_action, $1::text, $2::text, ins.user_id, $5::text, $6::text,
        jsonb_build_object('checkout_id', $3::uuid, 'holds', $4::uuid[], 'amount', ins.amount), $7::text, $8::text
    FROM clk, ins
    RETURNING 1)
SELECT must_equal((SELECT count(*) FROM mine), (SELECT count(*) FROM marked), 'lines in the checkout')
   AND must_equal((SELECT count(*) FROM ins), (SELECT count(*) FROM aud), 'audited') AS kept
