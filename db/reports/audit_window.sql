-- audit_window - the time of an event's entry so many before a time.
--
-- $1 text org, $2 text event, $3 timestamptz from when on, $4 timestamptz until when, $5 int8 how many
-- Columns: at. No row: there are fewer. Index: audit_log_event.
SELECT at FROM audit_log
WHERE org_id = $1::text AND event_id = $2::text AND at >= $3::timestamptz AND at <= $4::timestamptz
ORDER BY at DESC OFFSET $5::int8 LIMIT 1
