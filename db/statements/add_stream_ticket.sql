-- add_stream_ticket - a ticket for one stream of an event that exists.
--
-- $1 text hash of the ticket, $2 text org, $3 text event, $4 text user, $5 text role,
-- $6 timestamptz end of the token, $7 int8 how long it is good, in microseconds
-- Columns: event; no row: there is no such event. Index: primary key of events.
INSERT INTO stream_tickets (ticket_hash, org_id, event_id, user_id, role, token_ends, expires_at)
SELECT $1::text, e.org_id, e.event_id, $4::text, $5::text, $6::timestamptz,
    clock_timestamp() + make_interval(secs => $7::int8 / 1e6)
FROM events e WHERE e.org_id = $2::text AND e.event_id = $3::text
RETURNING event_id AS event
