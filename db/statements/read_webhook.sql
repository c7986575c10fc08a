-- read_webhook - an organization's webhook, and how it does.
--
-- $1 text org
-- Columns: url, kinds (JSON, null: all), created_at, updated_at, failing_since, error, waiting (events
-- that wait), dead (letters). No row: there is none. Indexes: primary keys, deliveries_due, outbox_event,
-- dead_letters_org.
SELECT w.url, to_jsonb(w.kinds) AS kinds, w.created_at, w.updated_at, w.failing_since, w.error,
    (SELECT COALESCE(sum(o.n), 0)::int8 FROM deliveries d
     CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM outbox b
        WHERE b.org_id = d.org_id AND b.event_id = d.event_id AND b.id > d.told_to AND b.id <= d.todo_to
          AND (b.channel IS NULL OR b.channel = 'webhook') AND (w.kinds IS NULL OR b.kind = ANY (w.kinds))) o
     WHERE d.org_id = w.org_id AND d.channel = 'webhook' AND d.told_to < d.todo_to) AS waiting,
    (SELECT count(*) FROM dead_letters l WHERE l.org_id = w.org_id) AS dead
FROM webhooks w
WHERE w.org_id = $1::text
