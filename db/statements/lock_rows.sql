-- lock_rows - takes the locks of the seating rows in which seats are asked for, where a policy leaves no
-- single seat alone: one after the other decides what becomes of a row.
--
-- $1 text[] orgs, $2 text[] events, $3 text[] seats, $4 bool whether it waits for them
-- Columns: missed (how many of the locks others have; 0 where it waits). Waits up to lock_timeout (55P03). In
-- rising order of the keys, so that nobody waits in a circle. A seat that moves to another row
-- meanwhile changes its event's version, which hold_seats finds. read_rows comes after it, with a
-- snapshot younger than the wait.
-- Index: primary key of seats.
SELECT count(*) FILTER (WHERE NOT is_had) AS missed
FROM (SELECT CASE WHEN $4::bool THEN pg_advisory_xact_lock(key) IS NOT NULL
                  ELSE pg_try_advisory_xact_lock(key) END AS is_had
      FROM (SELECT DISTINCT s.key
            FROM unnest($1::text[], $2::text[], $3::text[]) AS u(org, event, seat)
            CROSS JOIN LATERAL (
                SELECT seating_row_key(org_id, event_id, section, "row") AS key FROM seats t
                WHERE t.org_id = u.org AND t.event_id = u.event AND t.seat_id = u.seat OFFSET 0) s
            ORDER BY s.key OFFSET 0) seating_rows OFFSET 0) locks
