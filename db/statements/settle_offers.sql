-- settle_offers - writes down what became of offers whose hold has ended, and leaves word of it.
--
-- $1 text[] orgs, $2 uuid[] entries, $3 bool by the clock, too (the holds' locks are the caller's)
-- $4 text actor, $5 text request id, $6 text client's address, $7 text user agent: of who gave it back (null: the system)
-- Columns: settled (how many). Entries that somebody is about, and offers that stand, are passed over.
-- P0001 when rows changed are not those promised. Index: primary keys of waitlist and seat_holds.
WITH mine AS MATERIALIZED (
    SELECT w.* FROM unnest($1::text[], $2::uuid[]) AS u(org, entry)
    JOIN waitlist w ON w.waitlist_id = u.entry AND w.org_id = u.org
    WHERE w.status = 'OFFERED'
    FOR NO KEY UPDATE OF w SKIP LOCKED),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) AS locked FROM mine),
ended AS MATERIALIZED (
    SELECT m.*, clk.now, s.state FROM mine m CROSS JOIN clk
    CROSS JOIN LATERAL (SELECT offer_state(m.org_id, m.hold_id, CASE WHEN $3::bool THEN clk.now END) AS state) s
    WHERE s.state <> 'OFFERED'),
upd AS (
    UPDATE waitlist w SET status = e.state, changed_at = e.now
    FROM ended e WHERE w.waitlist_id = e.waitlist_id AND w.org_id = e.org_id
    RETURNING 1),
aud AS (
    INSERT INTO audit_log (at, action, hold_id, org_id, event_id, seat_id, user_id, actor, request_id, meta, client_ip, user_agent)
    SELECT e.now, CASE e.state WHEN 'ASSIGNED' THEN 'waitlist_assigned' WHEN 'LEFT' THEN 'waitlist_left'
            ELSE 'waitlist_lapsed' END::audit_action,
        e.hold_id, e.org_id, e.event_id, e.seat_id, e.user_id, CASE e.state WHEN 'LEFT' THEN $4::text END, $5::text,
        jsonb_build_object('waitlist_id', e.waitlist_id), CASE e.state WHEN 'LEFT' THEN $6::text END,
        CASE e.state WHEN 'LEFT' THEN $7::text END
    FROM ended e
    RETURNING 1),
told AS (
    INSERT INTO outbox (org_id, event_id, kind, email, payload)
    SELECT e.org_id, e.event_id, CASE e.state WHEN 'ASSIGNED' THEN 'waitlist.assigned' ELSE 'waitlist.lapsed' END, e.email,
        jsonb_build_object('waitlist_id', e.waitlist_id, 'event_id', e.event_id, 'user_id', e.user_id,
            'seat_id', e.seat_id, 'hold_id', e.hold_id, 'at', told_time(e.now))
    FROM ended e WHERE e.state <> 'LEFT'
    ORDER BY e.place
    RETURNING 1)
SELECT count(*) AS settled
FROM (SELECT must_equal((SELECT count(*) FROM ended), (SELECT count(*) FROM upd), 'offers settled')
         AND must_equal((SELECT count(*) FROM ended), (SELECT count(*) FROM aud), 'audited')
         AND (SELECT count(*) FROM told) >= 0 AS kept) k, ended
