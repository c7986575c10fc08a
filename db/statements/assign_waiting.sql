-- assign_waiting - writes down what an entry of a waitlist got, and leaves word of it.
--
-- $1 text org, $2 uuid entry, $3 uuid hold, $4 text seat, $5 timestamptz until when it is offered (null: it is theirs)
-- Columns: waited (microseconds since the entry came).
-- Behind pick_waiting, which has the entry's lock, and behind what gave the hold its seat.
-- P0001 when rows changed are not those promised. Index: primary key.
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
upd AS (
    UPDATE waitlist w SET status = CASE WHEN $5::timestamptz IS NULL THEN 'ASSIGNED' ELSE 'OFFERED' END,
        hold_id = $3::uuid, seat_id = $4::text, passed_over = NULL, changed_at = clk.now
    FROM clk WHERE w.waitlist_id = $2::uuid AND w.org_id = $1::text AND w.status = 'QUEUED'
    RETURNING w.event_id, w.user_id, w.email, w.status, clk.now, clk.now - w.created_at AS waited),
aud AS (
    INSERT INTO audit_log (at, action, hold_id, held_until, org_id, event_id, seat_id, user_id, meta)
    SELECT u.now, CASE u.status WHEN 'ASSIGNED' THEN 'waitlist_assigned' ELSE 'waitlist_offered' END::audit_action,
        $3, $5, $1, u.event_id, $4, u.user_id, jsonb_build_object('waitlist_id', $2)
    FROM upd u
    RETURNING 1),
told AS (
    INSERT INTO outbox (org_id, event_id, kind, email, payload)
    SELECT $1, u.event_id, CASE u.status WHEN 'ASSIGNED' THEN 'waitlist.assigned' ELSE 'waitlist.offered' END, u.email,
        jsonb_strip_nulls(jsonb_build_object('waitlist_id', $2, 'event_id', u.event_id, 'user_id', u.user_id,
            'seat_id', $4, 'hold_id', $3, 'expires_at', told_time($5), 'at', told_time(u.now)))
    FROM upd u
    RETURNING 1),
kept AS MATERIALIZED (
    SELECT must_equal(1, (SELECT count(*) FROM upd), 'entries served')
       AND must_equal(1, (SELECT count(*) FROM aud), 'audited')
       AND must_equal(1, (SELECT count(*) FROM told), 'told') AS kept)
SELECT (extract(epoch FROM u.waited) * 1000000)::bigint AS waited FROM kept, upd u
