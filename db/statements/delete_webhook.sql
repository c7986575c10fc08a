-- delete_webhook - an organization wants to hear nothing any more; what waited is told to nobody.
--
-- $1 text org
-- Columns: gone (0: there was none). Indexes: primary keys.
WITH gone AS (DELETE FROM webhooks w WHERE w.org_id = $1::text RETURNING 1),
untold AS (
    DELETE FROM deliveries d
    WHERE d.org_id = $1::text AND d.channel = 'webhook' AND EXISTS (SELECT FROM gone))
SELECT count(*) AS gone FROM gone
