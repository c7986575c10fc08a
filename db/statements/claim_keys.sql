-- claim_keys - tries to become the one request that works under each Idempotency-Key.
--
-- $1 int8[] lock keys (hash of org, user, method, path, key)
-- Columns: pos, got. Never waits. The stored answers are read by read_keys, in a statement of its
-- own: its snapshot must be younger than these locks.
SELECT pos, pg_try_advisory_xact_lock(k) AS got FROM unnest($1::int8[]) WITH ORDINALITY AS u(k, pos)
