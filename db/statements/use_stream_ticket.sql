-- use_stream_ticket - uses a ticket up, on whatever node it comes.
--
-- $1 text hash of the ticket, $2 text event
-- Columns: org, usr, role, token_ends; no row: it is unknown, used, over, or for another event.
-- Two uses at once wait for the row, and the second finds it gone. Index: primary key.
DELETE FROM stream_tickets t
WHERE t.ticket_hash = $1::text AND t.event_id = $2::text
    AND LEAST(t.expires_at, t.token_ends) > clock_timestamp()
RETURNING t.org_id AS org, t.user_id AS usr, t.role, t.token_ends
