-- occupancy_history - an event's snapshots, the first of each step.
--
-- $1 text org, $2 text event, $3 timestamptz from, $4 timestamptz to (both are in), $5 int8 seconds of a step
-- Columns: at, available, held, sold, blocked. In order of time; a step without a snapshot is left out.
-- Steps are counted from 1970, so that the same ones come whatever is asked for.
-- Index: primary key of occupancy_snapshots, once a step.
SELECT o.at, o.available, o.held, o.sold, o.blocked
FROM generate_series(date_bin(make_interval(secs => $5::int8), $3::timestamptz, 'epoch'), $4::timestamptz,
        make_interval(secs => $5)) AS step (begins)
CROSS JOIN LATERAL (
    SELECT s.* FROM occupancy_snapshots s
    WHERE s.org_id = $1::text AND s.event_id = $2::text
      AND s.at >= GREATEST(step.begins, $3) AND s.at < step.begins + make_interval(secs => $5) AND s.at <= $4
    ORDER BY s.at LIMIT 1) o
ORDER BY o.at
