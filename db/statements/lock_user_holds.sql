-- lock_user_holds - takes the locks of all active holds of a user on an event, for a policy of
-- one hold per user. The user's own lock comes before.
--
-- $1 text org, $2 text event, $3 text user
-- Columns: hold. Waits, up to lock_timeout (55P03). The key is the last 8 bytes of the hold's id,
-- as the engine computes it; in rising order, as lock_keys takes them, so that nobody waits in a circle. Index: seat_holds_user. status::text keeps the plan off the other
-- partial indexes, which look cheaper than the key while the table is small.
SELECT hold, pg_advisory_xact_lock(key) IS NULL AS locked
FROM (SELECT DISTINCT ('x' || right(replace(h.hold_id::text, '-', ''), 16))::bit(64)::bigint AS key, h.hold_id AS hold
      FROM seat_holds h
      WHERE h.org_id = $1::text AND h.event_id = $2::text AND h.user_id = $3::text
        AND h.status IN ('active', 'converted') AND h.status::text = 'active'
      ORDER BY key OFFSET 0) mine
