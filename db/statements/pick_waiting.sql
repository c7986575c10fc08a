-- pick_waiting - the first on an event's waitlist whom a free seat fits, and that seat; locks the entry.
--
-- $1 text org, $2 text event, $3 text[] seats that may be free (empty: look at all of the event)
-- Columns: entry, got (false: somebody is about it; another try will tell), usr, email, seat, confirms, offer_ttl.
-- No row: nobody is to be served now. The event must be on sale: the system gives nobody what he could not take himself.
-- After the lock of the event's waitlist. What is free here is judged again by hold_seats, under the seat's lock.
--
-- Seats are looked at by kind (type and section), and for each kind four wishes fit: so what it costs depends on the house,
-- not on how many wait, nor on what else they wish.
-- A seat that is held, but over, is free: hold_seats takes it over.
-- Indexes: primary keys of events and seats; waitlist_wishes; primary key of waitlist.
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
ev AS MATERIALIZED (
    SELECT e.waitlist_mode = 'confirm' AS confirms, e.waitlist_offer_ttl AS offer_ttl FROM events e
    WHERE e.org_id = $1::text AND e.event_id = $2::text AND e.status = 'on_sale'),
kinds AS MATERIALIZED (
    SELECT COALESCE(s.type, '') AS type, s.section, min(s.seat_id) AS seat
    FROM ev CROSS JOIN clk CROSS JOIN LATERAL (
        SELECT n.* FROM unnest($3::text[]) AS u(seat)
        CROSS JOIN LATERAL (
            SELECT t.seat_id, t.type, t.section, t.status, t.in_payment, t.held_until FROM seats t
            WHERE t.org_id = $1 AND t.event_id = $2 AND t.seat_id = u.seat OFFSET 0) n
        UNION ALL
        SELECT t.seat_id, t.type, t.section, t.status, t.in_payment, t.held_until FROM seats t
        WHERE cardinality($3::text[]) = 0 AND t.org_id = $1 AND t.event_id = $2) s
    WHERE s.status = 'available' OR (s.status = 'held' AND NOT s.in_payment AND s.held_until <= clk.now)
    GROUP BY 1, 2),
wishes AS MATERIALIZED (
    SELECT w.type, w.section, min(k.seat) AS seat
    FROM kinds k
    CROSS JOIN LATERAL (VALUES ('', ''), (k.type, ''), ('', k.section), (k.type, k.section)) AS w(type, section)
    GROUP BY 1, 2),
first AS MATERIALIZED (
    SELECT q.entry, w.seat
    FROM wishes w CROSS JOIN clk
    CROSS JOIN LATERAL (
        SELECT l.waitlist_id AS entry, l.place FROM waitlist l
        WHERE l.org_id = $1 AND l.event_id = $2 AND l.seat_type = w.type AND l.section = w.section AND l.status = 'QUEUED'
          AND (l.passed_over IS NULL OR l.passed_over <= clk.now)
        ORDER BY l.place LIMIT 1) q
    ORDER BY q.place LIMIT 1),
mine AS MATERIALIZED (
    SELECT l.user_id, l.email FROM first f
    JOIN waitlist l ON l.waitlist_id = f.entry AND l.org_id = $1
    WHERE l.status = 'QUEUED'
    FOR NO KEY UPDATE OF l SKIP LOCKED)
SELECT f.entry, m.user_id IS NOT NULL AS got, m.user_id AS usr, m.email, f.seat, ev.confirms, ev.offer_ttl
FROM first f CROSS JOIN ev LEFT JOIN mine m ON true
