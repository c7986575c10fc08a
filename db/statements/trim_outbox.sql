-- trim_outbox - where there is too much, the oldest events of the organization that has most go, down to its share.
--
-- $1 int8 rows that there may be, $2 int4 rows at the most
-- Columns: org, gone, untold (of those: somebody still waited for them); no row: nothing was too much.
-- Ids bound the count from above, so nothing is counted while there is room. Nodes that trim at the
-- same time choose the same rows (no SKIP LOCKED, which would choose the next ones).
-- Indexes: primary keys, outbox_event.
WITH span AS MATERIALIZED (
    SELECT COALESCE((SELECT max(id) FROM outbox) - (SELECT min(id) FROM outbox) + 1, 0) AS most),
excess AS MATERIALIZED (
    SELECT CASE WHEN s.most > $1::int8 THEN GREATEST((SELECT count(*) FROM outbox) - $1::int8, 0) ELSE 0 END AS n FROM span s),
biggest AS MATERIALIZED ( -- and by how much it is over its share
    SELECT o.org_id, count(*) - $1::int8 / count(*) OVER () AS over FROM outbox o WHERE (SELECT n FROM excess) > 0
    GROUP BY o.org_id ORDER BY count(*) DESC, o.org_id LIMIT 1),
old AS MATERIALIZED (
    SELECT o.id, o.org_id, o.event_id, o.email, mail_subject(o.kind, o.payload, o.id, o.told_as) AS subject
    FROM outbox o
    WHERE o.org_id = (SELECT org_id FROM biggest) AND o.id <= (SELECT routed_to FROM outbox_cursor)
    ORDER BY o.id LIMIT LEAST($2::int4, (SELECT n FROM excess), (SELECT over FROM biggest))),
gone AS (DELETE FROM outbox o USING old WHERE o.id = old.id RETURNING old.*)
SELECT g.org_id AS org, count(*) AS gone,
    count(*) FILTER (WHERE EXISTS (
        SELECT FROM deliveries d
        WHERE d.org_id = g.org_id AND d.channel = 'webhook' AND d.subject = g.event_id AND g.id > d.told_to AND g.id <= d.todo_to)
      OR (g.email IS NOT NULL AND EXISTS (
        SELECT FROM deliveries d
        WHERE d.org_id = g.org_id AND d.channel = 'mail' AND d.subject = g.subject AND g.id > d.told_to AND g.id <= d.todo_to))) AS untold
FROM gone g GROUP BY g.org_id
