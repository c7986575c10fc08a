-- lock_keys - takes the locks of users and holds that a batch needs, one after the other.
--
-- $1 int8[]  lock keys: distinct, users before holds, each kind in rising order. Every node
--            computes and sorts them alike, so that no two batches wait in a circle.
-- Columns: none that matter. Waits, up to lock_timeout (55P03: the batch is repeated).
-- The judging statements come after it, with a snapshot younger than the wait.
SELECT count(pg_advisory_xact_lock(k)) FROM unnest($1::int8[]) AS u(k)
