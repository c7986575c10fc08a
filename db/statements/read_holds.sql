-- read_holds - whole holds, as they are shown.
--
-- $1 text[] orgs, $2 uuid[] holds
-- Columns (a row per line of a hold, in order of pos and line): pos (1.. of the hold asked for),
-- hold, event, usr, cart, source, created_at, until, now, currency, then of the line: line, seat,
-- section, row, number, area, quantity, version, price, status, reason, ended_at, tickets.
-- A hold that does not exist has no row. Index: primary keys of seat_holds, seats, areas, events.
SELECT u.pos, h.hold_id AS hold, h.event_id AS event, h.user_id AS usr, h.cart_token AS cart, h.source,
    h.created_at, h.held_until AS until, clock_timestamp() AS now, e.currency,
    h.line, h.seat_id AS seat, s.section, s."row", s.number, h.area_id AS area, h.quantity,
    COALESCE(s.version, a.version) AS version, h.price, h.status, h.reason, h.ended_at, h.ticket_ids AS tickets,
    h.in_payment
FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS u(org, hold, pos)
CROSS JOIN LATERAL (SELECT * FROM seat_holds l WHERE l.hold_id = u.hold AND l.org_id = u.org OFFSET 0) h
LEFT JOIN events e ON e.org_id = h.org_id AND e.event_id = h.event_id
LEFT JOIN seats s ON s.org_id = h.org_id AND s.event_id = h.event_id AND s.seat_id = h.seat_id
LEFT JOIN areas a ON a.org_id = h.org_id AND a.event_id = h.event_id AND a.area_id = h.area_id
ORDER BY u.pos, h.line
