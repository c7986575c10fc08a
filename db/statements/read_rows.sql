-- read_rows - all seats of the seating rows in which seats are asked for, as they are now.
--
-- $1 text[] orgs, $2 text[] events, $3 text[] seats
-- Columns: line (which seating row, from 1), pos (null: a seat of the row; else: the seat is the one asked
-- for at this place, from 1), seat; of a seat of the row also number, aisle (nobody sits next to
-- it behind it), state, usr and hold (whose it is; of a held seat).
-- state: free (also when a hold on it is over) | held | taken (sold, or blocked) | removed
-- By line; the seats of a row by their ids' bytes, then what was asked for. Seats that there are not have no row.
-- lock_rows comes before it. Indexes: primary key of seats; seats_row.
-- OFFSET 0 keeps a look-up where it is written: by its key, or by its row.
WITH asked AS MATERIALIZED (
    SELECT dense_rank() OVER (ORDER BY u.org, u.event, s.section, s."row") AS line, u.pos, u.org, u.event, u.seat,
        s.section, s."row"
    FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS u(org, event, seat, pos)
    CROSS JOIN LATERAL (
        SELECT section, "row" FROM seats t
        WHERE t.org_id = u.org AND t.event_id = u.event AND t.seat_id = u.seat OFFSET 0) s),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT l.line, NULL::int8 AS pos, s.seat_id COLLATE "C" AS seat, s.number,
    COALESCE(s.attributes -> 'aisle_after' = 'true', false) AS aisle,
    CASE WHEN s.status = 'removed' THEN 'removed'
         WHEN s.status IN ('sold', 'blocked') THEN 'taken'
         WHEN s.status = 'held' AND (s.in_payment OR s.held_until > clk.now) THEN 'held'
         ELSE 'free' END AS state,
    s.user_id AS usr, s.hold_id AS hold
FROM (SELECT DISTINCT line, org, event, section, "row" FROM asked) l
CROSS JOIN clk
CROSS JOIN LATERAL (
    SELECT * FROM seats t
    WHERE seating_row_key(t.org_id, t.event_id, t.section, t."row") = seating_row_key(l.org, l.event, l.section, l."row")
    OFFSET 0) s
WHERE s.org_id = l.org AND s.event_id = l.event AND s.section = l.section AND s."row" = l."row"
UNION ALL
SELECT line, pos, seat COLLATE "C", NULL, NULL, NULL, NULL, NULL FROM asked
ORDER BY line, pos NULLS FIRST, seat
