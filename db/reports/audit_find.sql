-- audit_find - the newest entries of a stretch of time that fit, for GET /api/admin/audit.
--
-- $1 text org; what must fit, null: anything: $2 text event, $3 text seat, $4 uuid hold, $5 text user, $6 audit_action
-- $7 timestamptz from when on, $8 timestamptz until when, $9 int8 below which id an entry of that very time is taken,
-- $10 int8 how many to look at (null: all), $11 int8 how many to give
-- Columns: see src/api/audit_search.h. `seen` of $10: there may be newer ones than those given.
-- Needs plans made for its values: then what is null isn't there, and months out of the stretch aren't either.
-- A seat of an event is looked for among the event's entries: || '' keeps audit_log_seat out of it, since seats of that
-- name are in all events.
-- Indexes: audit_log_event, _place, _hold, _user, _seat, _action; primary key of seat_holds.
WITH found AS MATERIALIZED (
    SELECT a.at, a.id, a.ctid AS place, a.tableoid AS month FROM audit_log a
    WHERE a.org_id = $1::text
      AND ($2::text IS NULL OR a.event_id = $2)
      AND ($3::text IS NULL OR ($2 IS NULL AND a.seat_id = $3) OR ($2 IS NOT NULL AND a.seat_id || '' = $3))
      AND ($4::uuid IS NULL OR a.hold_id = $4)
      AND ($5::text IS NULL OR a.user_id = $5)
      AND ($6::audit_action IS NULL OR a.action = $6)
      AND a.at >= $7::timestamptz
      AND a.at <= $8::timestamptz
      AND (a.at < $8::timestamptz OR a.id < $9::int8)
    LIMIT $10::int8),
newest AS MATERIALIZED (SELECT * FROM found ORDER BY at DESC, id DESC LIMIT $11::int8)
SELECT (SELECT count(*) FROM found) AS seen, n.id, n.at, n.action, n.event_id, n.seat_id, n.area_id, n.hold_id, n.user_id,
    n.actor, n.reason, n.version, n.quantity, n.held_until, n.request_id, n.client_ip, n.user_agent, n.meta,
    COALESCE((n.meta ->> 'checkout_id')::uuid, h.checkout_id) AS checkout,
    CASE WHEN n.action = 'seat_released' THEN extract(epoch FROM n.at - h.created_at)::int8 END AS held_seconds,
    (n.meta ->> 'checkin_id')::uuid AS checkin,
    (n.meta ->> 'waitlist_id')::uuid AS waitlist
FROM newest w
JOIN audit_log n ON n.ctid = w.place AND n.tableoid = w.month
LEFT JOIN LATERAL (
    SELECT s.created_at, s.checkout_id FROM seat_holds s
    WHERE s.hold_id = n.hold_id AND s.org_id = $1 LIMIT 1) h ON true
ORDER BY w.at DESC, w.id DESC
