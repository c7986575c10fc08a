-- read_checkout - one checkout with its holds and its latest payment.
--
-- $1 text org, $2 uuid checkout
-- Columns (a row per line of its holds, in order of pos and line): those of read_holds, then
-- checkout, event, usr, status, amount, currency, intent, intent_status (null: none),
-- mine (the hold has not gone into a newer checkout), flight (its event is one).
-- A checkout that does not exist has no row.
-- Index: primary keys of checkouts, seat_holds, seats, areas, events, payment_intents.
SELECT u.pos, h.hold_id AS hold, h.event_id AS event, h.user_id AS usr, h.cart_token AS cart, h.source,
    h.created_at, h.held_until AS until, clock_timestamp() AS now, c.currency,
    h.line, h.seat_id AS seat, s.section, s."row", s.number, h.area_id AS area, h.quantity,
    COALESCE(s.version, a.version) AS version, h.price, h.status, h.reason, h.ended_at, h.ticket_ids AS tickets,
    h.in_payment,
    c.checkout_id AS checkout, c.event_id AS checkout_event, c.user_id AS checkout_user, c.status AS checkout_status,
    c.amount, c.currency AS checkout_currency, c.intent_id AS intent, i.status AS intent_status,
    m.checkout_id IS NOT DISTINCT FROM c.checkout_id AS mine, e.kind = 'flight' AS flight
FROM checkouts c
JOIN events e ON e.org_id = c.org_id AND e.event_id = c.event_id
CROSS JOIN LATERAL unnest(c.hold_ids) WITH ORDINALITY AS u(hold, pos)
CROSS JOIN LATERAL (SELECT * FROM seat_holds l WHERE l.hold_id = u.hold AND l.org_id = c.org_id OFFSET 0) h
LEFT JOIN LATERAL ( -- as change_holds finds it
    SELECT l.checkout_id FROM seat_holds l
    WHERE l.hold_id = u.hold AND l.org_id = c.org_id AND l.checkout_id IS NOT NULL
    ORDER BY l.ended_at DESC NULLS FIRST LIMIT 1) m ON true
LEFT JOIN seats s ON s.org_id = h.org_id AND s.event_id = h.event_id AND s.seat_id = h.seat_id
LEFT JOIN areas a ON a.org_id = h.org_id AND a.event_id = h.event_id AND a.area_id = h.area_id
LEFT JOIN payment_intents i ON i.intent_id = c.intent_id
WHERE c.checkout_id = $2::uuid AND c.org_id = $1::text
ORDER BY u.pos, h.line
