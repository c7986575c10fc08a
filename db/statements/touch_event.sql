-- touch_event - raises an event's version because its seats changed (import, removal), and audits it.
--
-- $1 text org, $2 text event, $3 text actor (null: the system), $4 text request id (null: none),
-- $5 text JSON of what the change was
-- Columns: version. After lock_event. Index: primary key of events.
WITH changed AS (
    UPDATE events e SET version = e.version + 1, updated_at = clock_timestamp()
    WHERE e.org_id = $1::text AND e.event_id = $2::text
    RETURNING version),
aud AS (
    INSERT INTO audit_log (at, version, action, org_id, event_id, actor, request_id, meta)
    SELECT clock_timestamp(), version, 'event_changed', $1, $2, $3::text, $4::text, $5::text::jsonb
    FROM changed)
SELECT version FROM changed
