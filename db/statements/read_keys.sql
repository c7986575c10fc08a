-- read_keys - answers that were stored for Idempotency-Keys.
--
-- $1 text[] org, $2 text[] user, $3 text[] method, $4 text[] path, $5 text[] key, $6 int4 kept for how many seconds
-- Columns: pos, digest (hex), status, type, body. No row: nothing is stored. Index: primary key.
SELECT u.pos, encode(i.digest, 'hex') AS digest, i.status, i.content_type AS type, i.body
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS u(org, usr, method, path, key, pos)
JOIN idempotency_keys i ON i.org_id = u.org AND i.user_id = u.usr AND i.method = u.method AND i.path = u.path AND i.key = u.key
WHERE i.created_at > clock_timestamp() - make_interval(secs => $6::int4)
