-- node_join - puts this node's row into the table of living nodes, unless another one has its name.
--
-- $1 text node id, $2 text address
-- $3 timestamptz: the last heartbeat of a row that was watched and stood still (null: none was)
-- Columns: incarnation. No row: a node of this id was alive less than 10 s ago.
-- Index: primary key of nodes.
INSERT INTO nodes AS n (node_id, incarnation, address)
VALUES ($1::text, nextval('node_incarnations'), $2::text)
ON CONFLICT (node_id) DO UPDATE
SET incarnation = excluded.incarnation, address = excluded.address, started_at = clock_timestamp(),
    heartbeat_at = clock_timestamp()
WHERE n.heartbeat_at < clock_timestamp() - interval '10 seconds' OR n.heartbeat_at = $3::timestamptz
RETURNING incarnation
