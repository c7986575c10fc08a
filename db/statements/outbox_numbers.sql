-- outbox_numbers - how much waits to be told, and for how long.
--
-- Columns: hooks, mails (events that wait), oldest_s (age of the first of them; null: none),
-- dead (letters).
-- Indexes: deliveries_due, outbox_event.
SELECT COALESCE(sum(o.n) FILTER (WHERE d.channel = 'webhook'), 0)::int8 AS hooks,
    COALESCE(sum(o.n) FILTER (WHERE d.channel = 'mail'), 0)::int8 AS mails,
    EXTRACT(epoch FROM clock_timestamp() - min(o.oldest))::float8 AS oldest_s,
    (SELECT count(*) FROM dead_letters) AS dead
FROM deliveries d
LEFT JOIN webhooks h ON h.org_id = d.org_id
CROSS JOIN LATERAL (
    SELECT count(*) AS n, min(b.created_at) AS oldest FROM outbox b
    WHERE b.org_id = d.org_id AND b.event_id = d.event_id AND b.id > d.told_to AND b.id <= d.todo_to
      AND (b.channel IS NULL OR b.channel = d.channel)
      AND (d.channel = 'mail' OR h.kinds IS NULL OR b.kind = ANY (h.kinds))) o
WHERE d.told_to < d.todo_to
