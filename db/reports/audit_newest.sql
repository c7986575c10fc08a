-- audit_newest - the time of an organization's newest entry before a time.
--
-- $1 text org, $2 timestamptz from when on, $3 timestamptz until when
-- Columns: at (null: there is none). One look into audit_log_event for each of its events.
SELECT max(x.at) AS at FROM events e
CROSS JOIN LATERAL (
    SELECT a.at FROM audit_log a
    WHERE a.org_id = e.org_id AND a.event_id = e.event_id AND a.at >= $2::timestamptz AND a.at <= $3::timestamptz
    ORDER BY a.at DESC LIMIT 1) x
WHERE e.org_id = $1::text
