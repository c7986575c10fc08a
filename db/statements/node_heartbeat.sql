-- node_heartbeat - says that this node lives, drops who doesn't, and tells who else does.
--
-- $1 text node id, $2 int8 incarnation, $3 text address
-- Columns: mine (false: the row has another incarnation, somebody took this node's name), newest
-- (the last incarnation that was ever drawn: when it moved, somebody was here, be it for a moment),
-- database (its oid), node_id and incarnation of another living node: a row for each (at most 65),
-- or one in which these two are null.
-- A row that was dropped while this node stood still comes back.
-- Index: primary key of nodes (a table of a few rows).
WITH dead AS (
    DELETE FROM nodes WHERE node_id <> $1::text AND heartbeat_at < clock_timestamp() - interval '10 seconds'
    RETURNING node_id),
me AS (
    INSERT INTO nodes AS n (node_id, incarnation, address) VALUES ($1, $2::int8, $3::text)
    ON CONFLICT (node_id) DO UPDATE SET heartbeat_at = clock_timestamp()
    WHERE n.incarnation = excluded.incarnation
    RETURNING 1),
others AS (
    SELECT n.node_id, n.incarnation FROM nodes n
    WHERE n.node_id <> $1 AND n.node_id NOT IN (SELECT node_id FROM dead)
    LIMIT 65)
SELECT EXISTS (SELECT 1 FROM me) AS mine,
    (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM node_incarnations) AS newest,
    (SELECT oid::int8 FROM pg_database WHERE datname = current_database()) AS database,
    others.node_id, others.incarnation
FROM (VALUES (1)) AS one LEFT JOIN others ON true
