-- replay_dead_letters - puts dead letters into the outbox again, at its end.
--
-- $1 text org, $2 int8[] ids (null: all), $3 int4 rows at the most
-- Columns: replayed, left (more of those asked for). A consumer knows each by the id that it had.
-- Index: dead_letters_org.
WITH asked AS MATERIALIZED (
    SELECT l.id FROM dead_letters l
    WHERE l.org_id = $1::text AND ($2::int8[] IS NULL OR l.id = ANY ($2::int8[]))
    ORDER BY l.id LIMIT $3::int4 + 1
    FOR UPDATE),
gone AS (
    DELETE FROM dead_letters l
    WHERE l.id IN (SELECT a.id FROM asked a ORDER BY a.id LIMIT $3::int4)
    RETURNING l.*),
again AS (
    INSERT INTO outbox (org_id, event_id, kind, email, payload, told_as, channel)
    SELECT g.org_id, g.event_id, g.kind, g.email, g.payload, g.told_as, g.channel
    FROM gone g ORDER BY g.id
    RETURNING 1)
SELECT (SELECT count(*) FROM again) AS replayed, (SELECT count(*) FROM asked) > $3::int4 AS left
