-- list_dead_letters - what of an organization nobody took, oldest first.
--
-- $1 text org, $2 int8 after which id, $3 int4 rows at the most
-- Columns: id, channel, event, told_as, kind, email, payload, attempts, error, created_at, died_at.
-- Index: dead_letters_org.
SELECT l.id, l.channel, l.event_id AS event, l.told_as, l.kind, l.email, l.payload, l.attempts, l.error, l.created_at, l.died_at
FROM dead_letters l
WHERE l.org_id = $1::text AND l.id > $2::int8
ORDER BY l.id
LIMIT $3::int4
