-- What an application that talks to Postgres itself does for a hold: lock and judge by the UPDATE, then write
-- the hold and the audit row. The n-th transaction of a client takes a seat that no other takes.
\set n :n + 1
\set i permute(:n * :clients + :client_id, :seats, 42)
\set event :i % :events
\set seat :i / :events
\set user :i % 4000
BEGIN;
UPDATE seats SET status = 'held', hold_id = gen_random_uuid(), user_id = :user, held_until = clock_timestamp() + interval '900 s', version = version + 1 WHERE org_id = 'bench' AND event_id = :event AND seat_id = :seat AND (status = 'available' OR status = 'held' AND held_until <= clock_timestamp() AND NOT in_payment) RETURNING hold_id, held_until, version, price \gset
INSERT INTO seat_holds (hold_id, line, held_until, created_at, price, org_id, event_id, seat_id, user_id, cart_token, source) VALUES (:hold_id, 1, :held_until, clock_timestamp(), :price, 'bench', :event, :seat, :user, 'bench', 'web');
INSERT INTO audit_log (at, version, hold_id, held_until, action, org_id, event_id, seat_id, user_id, actor) VALUES (clock_timestamp(), :version, :hold_id, :held_until, 'seat_held', 'bench', :event, :seat, :user, :user);
COMMIT;
