-- touch_event - raises an event's version because its seats changed (import, removal), and audits it.
--
-- $1 text org, $2 text event, $3 text actor (null: the system), $4 text request id (null: none),
-- $5 text JSON of what the change was, $6 text client's address, $7 text user agent (null: the system)
-- Columns: version. After lock_event. Index: primary key of events.
WITH changed AS (
    UPDATE events e SET version = e.version + 1, updated_at = clock_timestamp()
    WHERE e.org_id = $1::text AND e.event_id = $2::text
    RETURNING version),
aud AS (
    INSERT INTO audit_log (at, version, action, org_id, event_id, actor, request_id, meta, client_ip, user_agent)
    SELECT clock_timestamp(), version, 'event_changed', $1, $2, $3::text, $4::text, $5::text::jsonb, $6::text, $7::text
    FROM changed)
SELECT version FROM changed
