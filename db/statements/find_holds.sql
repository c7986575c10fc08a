-- find_holds - what a user has on an event that a checkout may take.
--
-- $1 text org, $2 text event, $3 text user, $4 int4 holds at the most
-- Columns (at least one row): hold (null: none), paying (there are others, in payment),
-- lapsed (the user's last hold ran out). Locks nothing: each is judged under its lock.
-- Ids of holds rise with time. Indexes: seat_holds_user, seat_holds_ended.
WITH mine AS MATERIALIZED (
    SELECT h.hold_id, bool_or(h.status = 'active') AS active, bool_or(h.in_payment) AS paying,
        max(h.held_until) <= clock_timestamp() AS gone
    FROM seat_holds h
    WHERE h.org_id = $1::text AND h.event_id = $2::text AND h.user_id = $3::text
      AND h.status IN ('active', 'converted')
    GROUP BY h.hold_id),
ended AS MATERIALIZED (
    SELECT h.hold_id, h.status = 'expired' AS lapsed FROM seat_holds h
    WHERE h.org_id = $1::text AND h.event_id = $2::text AND h.user_id = $3::text
      AND h.status IN ('expired', 'cancelled')
    ORDER BY h.org_id DESC, h.event_id DESC, h.user_id DESC, h.hold_id DESC LIMIT 1),
known AS (
    SELECT COALESCE((SELECT bool_or(active AND paying) FROM mine), false) AS paying,
        COALESCE((SELECT e.lapsed FROM (
            SELECT hold_id, active AND gone AS lapsed FROM mine
            UNION ALL SELECT hold_id, lapsed FROM ended) e
            ORDER BY e.hold_id DESC, e.lapsed DESC LIMIT 1), false) AS lapsed)
SELECT m.hold_id AS hold, k.paying, k.lapsed
FROM known k
LEFT JOIN (SELECT hold_id FROM mine WHERE active AND NOT paying AND NOT gone
           ORDER BY hold_id LIMIT $4::int4) m ON true
ORDER BY m.hold_id
