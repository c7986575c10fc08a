-- The same in one statement and so one round trip: as well as Postgres can be asked without batching.
\set n :n + 1
\set i permute(:n * :clients + :client_id, :seats, 42)
\set event :i % :events
\set seat :i / :events
\set user :i % 4000
WITH taken AS (UPDATE seats SET status = 'held', hold_id = gen_random_uuid(), user_id = :user, held_until = clock_timestamp() + interval '900 s', version = version + 1 WHERE org_id = 'bench' AND event_id = :event AND seat_id = :seat AND (status = 'available' OR status = 'held' AND held_until <= clock_timestamp() AND NOT in_payment) RETURNING *), hold AS (INSERT INTO seat_holds (hold_id, line, held_until, created_at, price, org_id, event_id, seat_id, user_id, cart_token, source) SELECT hold_id, 1, held_until, clock_timestamp(), price, org_id, event_id, seat_id, user_id, 'bench', 'web' FROM taken) INSERT INTO audit_log (at, version, hold_id, held_until, action, org_id, event_id, seat_id, user_id, actor) SELECT clock_timestamp(), version, hold_id, held_until, 'seat_held', org_id, event_id, seat_id, user_id, user_id FROM taken;
