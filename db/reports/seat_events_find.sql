-- seat_events_find - the newest entries of seat_events in a stretch of time that fit, for GET /flights/{event}/events.
--
-- As audit_find: $1 text org, $2 text event; what must fit, null: anything: $3 text seat, $5 text passenger,
-- $6 text event type ($4 uuid: null, a hold isn't asked for)
-- $7 timestamptz from when on, $8 timestamptz until when, $9 int8 below which id an entry of that very time is taken,
-- $10 int8 how many to look at (null: all), $11 int8 how many to give
-- Columns: see src/api/seat_events.c; the first three as of audit_find. What is told of an event is made for those that
-- are given only. Index: audit_log_event, both times.
WITH found AS MATERIALIZED (
    SELECT e.created_at AS at, e.event_id AS id FROM seat_events e
    WHERE e.org_id = $1::text AND e.flight_id = $2::text
      AND ($3::text IS NULL OR e.seat_id || '' = $3)
      AND $4::uuid IS NULL
      AND ($5::text IS NULL OR e.passenger_id = $5)
      AND ($6::text IS NULL OR e.event_type = $6)
      AND e.created_at >= $7::timestamptz
      AND e.created_at <= $8::timestamptz
      AND (e.created_at < $8::timestamptz OR e.event_id < $9::int8)
    LIMIT $10::int8),
newest AS MATERIALIZED (SELECT * FROM found ORDER BY at DESC, id DESC LIMIT $11::int8)
SELECT (SELECT count(*) FROM found) AS seen, e.event_id, e.created_at, e.seat_id, e.flight_id, e.event_type, e.actor,
    e.passenger_id, e.metadata
FROM newest w
JOIN seat_events e ON e.org_id = $1 AND e.flight_id = $2 AND e.created_at = w.at AND e.event_id = w.id
ORDER BY w.at DESC, w.id DESC
