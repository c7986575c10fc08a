-- store_keys - keeps the answers of requests with an Idempotency-Key, in their own transaction.
--
-- $1 text[] org, $2 text[] user, $3 text[] method, $4 text[] path, $5 text[] key,
-- $6 text[] digest (hex of SHA-256), $7 int4[] status, $8 text[] type, $9 text[] body
-- Columns: none that matter. An answer past its time is replaced. Index: primary key.
WITH ins AS (
    INSERT INTO idempotency_keys (org_id, user_id, method, path, key, digest, status, content_type, body)
    SELECT org, usr, method, path, key, decode(digest, 'hex'), status, type, body
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int4[], $8::text[], $9::text[])
        AS u(org, usr, method, path, key, digest, status, type, body)
    ON CONFLICT (org_id, user_id, method, path, key) DO UPDATE
        SET digest = excluded.digest, status = excluded.status, content_type = excluded.content_type,
            body = excluded.body, created_at = clock_timestamp()
    RETURNING 1)
SELECT count(*) FROM ins
