-- add_waiting - puts somebody at the end of an event's waitlist.
--
-- $1 text org, $2 text event, $3 uuid entry, $4 text user, $5 text seat type, $6 text section (empty: any), $7 text e-mail
-- $8 int8 how many may wait there, $9 text actor, $10 text request id, $11 text client's address, $12 text user agent
-- Columns: position. No row: that many wait already.
-- Under the lock of those who join this event, so that places are in the order of commits and no two have the same position.
-- Index: waitlist_queue; 23505 on waitlist_open is somebody who waits there already.
WITH ahead AS MATERIALIZED (
    SELECT count(*) AS n FROM waitlist w
    WHERE w.org_id = $1::text AND w.event_id = $2::text AND w.status = 'QUEUED'),
ins AS (
    INSERT INTO waitlist (waitlist_id, org_id, event_id, user_id, seat_type, section, email)
    SELECT $3::uuid, $1, $2, $4::text, $5::text, $6::text, $7::text FROM ahead WHERE ahead.n < $8::int8
    RETURNING created_at),
aud AS (
    INSERT INTO audit_log (at, action, org_id, event_id, user_id, actor, request_id, meta, client_ip, user_agent)
    SELECT ins.created_at, 'waitlist_joined'::audit_action, $1, $2, $4, $9::text, $10::text,
        jsonb_strip_nulls(jsonb_build_object('waitlist_id', $3, 'seat_type', NULLIF($5, ''), 'section', NULLIF($6, ''))),
        $11::text, $12::text
    FROM ins)
SELECT ahead.n + 1 AS position FROM ahead, ins
