-- put_webhook - sets where an organization wants to hear of its events.
--
-- $1 text org, $2 text url, $3 text secret (null: the one that there is, else $5), $4 text[] kinds (null: all)
-- $5 text a secret of ours
-- Columns: made (it is new), ours (its secret is $5), url, kinds (JSON), created_at, updated_at.
-- What waits is due at once: the new receiver may do better. A new webhook hears of what comes from
-- now on. Indexes: primary keys.
WITH was AS MATERIALIZED (SELECT w.org_id FROM webhooks w WHERE w.org_id = $1::text FOR UPDATE),
stale AS (
    DELETE FROM deliveries d
    WHERE d.org_id = $1::text AND d.channel = 'webhook' AND NOT EXISTS (SELECT FROM was)),
again AS (
    UPDATE deliveries d SET next_at = clock_timestamp(), attempts = 0
    WHERE d.org_id = $1::text AND d.channel = 'webhook' AND d.told_to < d.todo_to AND NOT d.leased
      AND EXISTS (SELECT FROM was)),
put AS (
    INSERT INTO webhooks AS w (org_id, url, secret, kinds)
    SELECT $1::text, $2::text, COALESCE($3::text, $5::text), $4::text[]
    FROM (SELECT count(*) AS n FROM was) b WHERE b.n >= 0 -- reads `was`: it must look before the row changes
    ON CONFLICT (org_id) DO UPDATE SET url = EXCLUDED.url, secret = COALESCE($3::text, w.secret), kinds = EXCLUDED.kinds,
        updated_at = clock_timestamp(), failing_since = NULL, error = NULL
    RETURNING w.*)
SELECT NOT EXISTS (SELECT FROM was) AS made, p.secret = $5::text AS ours, p.url,
    to_jsonb(p.kinds) AS kinds, p.created_at, p.updated_at
FROM put p
