-- purge_stream_tickets - forgets tickets that nobody used.
--
-- $1 int4 rows at the most
-- Columns: purged. The table holds a minute's tickets, so it is walked.
WITH gone AS (
    DELETE FROM stream_tickets WHERE ticket_hash IN (
        SELECT t.ticket_hash FROM stream_tickets t WHERE t.expires_at < clock_timestamp() LIMIT $1::int4)
    RETURNING 1)
SELECT count(*) AS purged FROM gone
