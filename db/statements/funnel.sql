-- funnel - what became of an event's holds, by the hour in which they were made, section and area.
--
-- $1 text org, $2 text event, $3 timestamptz from, $4 timestamptz to (not in), $5 int4 rows at the most
-- Columns: hour, section (null: of an area), area (null: of seats), held, sold, expired, active,
-- user_cancelled, payment_failed, admin_override, otherwise (cancelled in another way).
-- Seats, and quantities of areas; held is the sum of the rest. A hold that is over is expired,
-- whether or not it was cleaned up; what was sold and given back is cancelled.
-- The audit log names the holds of that time (audit_log_event), their lines say what became of them
-- (primary key of seat_holds, a hold's lines at once; in order, so that neighbours are read once),
-- the event's seats their section (primary key of seats).
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
made AS MATERIALIZED (
    SELECT DISTINCT g.hold_id FROM audit_log g
    WHERE g.org_id = $1::text AND g.event_id = $2::text AND g.at >= $3::timestamptz AND g.at < $4::timestamptz
      AND g.action = 'seat_held'
    ORDER BY g.hold_id),
places AS MATERIALIZED (
    SELECT p.seat_id, p.section FROM seats p WHERE p.org_id = $1 AND p.event_id = $2),
lines AS (
    SELECT date_trunc('hour', h.created_at, 'UTC') AS hour, s.section, h.area_id, h.quantity, h.reason,
        CASE WHEN h.status = 'active' AND NOT h.in_payment AND h.held_until <= clk.now THEN 'expired'
            ELSE h.status END AS status
    FROM clk CROSS JOIN made m CROSS JOIN LATERAL (
        SELECT * FROM seat_holds l
        WHERE l.hold_id = m.hold_id AND l.org_id = $1 AND l.event_id = $2
          AND l.created_at >= $3 AND l.created_at < $4 OFFSET 0) h
    LEFT JOIN places s ON s.seat_id = h.seat_id)
SELECT hour, section, area_id AS area, sum(quantity) AS held,
    COALESCE(sum(quantity) FILTER (WHERE status = 'converted'), 0) AS sold,
    COALESCE(sum(quantity) FILTER (WHERE status = 'expired'), 0) AS expired,
    COALESCE(sum(quantity) FILTER (WHERE status = 'active'), 0) AS active,
    COALESCE(sum(quantity) FILTER (WHERE status = 'cancelled' AND reason = 'user_cancelled'), 0) AS user_cancelled,
    COALESCE(sum(quantity) FILTER (WHERE status = 'cancelled' AND reason = 'payment_failed'), 0) AS payment_failed,
    COALESCE(sum(quantity) FILTER (WHERE status = 'cancelled' AND reason = 'admin_override'), 0) AS admin_override,
    COALESCE(sum(quantity) FILTER (WHERE status = 'cancelled' AND (reason IS NULL OR reason NOT IN (
        'user_cancelled', 'payment_failed', 'admin_override'))), 0) AS otherwise
FROM lines
GROUP BY hour, section, area_id
ORDER BY hour, section, area_id
LIMIT $5::int4
