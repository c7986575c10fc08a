-- leave_waiting - takes an entry that waits off its list.
--
-- $1 text org, $2 uuid entry, $3 text whose it must be (null: anybody's)
-- $4 text actor, $5 text request id, $6 text client's address, $7 text user agent
-- Columns: usr, state, hold, event: of the entry as it was. No row: there is none, or it is another's.
-- Waits for the entry's lock (55P03 after lock_timeout). What isn't QUEUED stays as it is. Index: primary key.
WITH mine AS MATERIALIZED (
    SELECT w.* FROM waitlist w
    WHERE w.waitlist_id = $2::uuid AND w.org_id = $1::text AND ($3::text IS NULL OR w.user_id = $3)
    FOR NO KEY UPDATE),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) AS locked FROM mine),
upd AS (
    UPDATE waitlist w SET status = 'LEFT', changed_at = clk.now
    FROM mine m, clk
    WHERE w.waitlist_id = m.waitlist_id AND w.org_id = m.org_id AND m.status = 'QUEUED'
    RETURNING clk.now, w.event_id, w.user_id),
aud AS (
    INSERT INTO audit_log (at, action, org_id, event_id, user_id, actor, request_id, meta, client_ip, user_agent)
    SELECT u.now, 'waitlist_left'::audit_action, $1, u.event_id, u.user_id, $4::text, $5::text,
        jsonb_build_object('waitlist_id', $2), $6::text, $7::text
    FROM upd u)
SELECT m.user_id AS usr, m.status AS state, m.hold_id AS hold, m.event_id AS event FROM mine m
