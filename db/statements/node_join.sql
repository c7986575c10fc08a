-- node_join - puts this node's row into the table of living nodes, unless another one has its name.
--
-- $1 text node id, $2 text address
-- $3 timestamptz: the last heartbeat of a row that was watched and stood still (null: none was)
-- Columns: incarnation. No row: a node of this id was alive less than 10 s ago.
-- Index: primary key of nodes.
-- An incarnation is drawn only where the name can be had: all nodes doubt what they know about one
-- that was drawn and not heard.
INSERT INTO nodes AS n (node_id, incarnation, address)
SELECT $1::text, nextval('node_incarnations'), $2::text
WHERE NOT EXISTS (
    SELECT FROM nodes m WHERE m.node_id = $1::text
    AND m.heartbeat_at >= clock_timestamp() - interval '10 seconds'
    AND m.heartbeat_at IS DISTINCT FROM $3::timestamptz)
ON CONFLICT (node_id) DO UPDATE
SET incarnation = excluded.incarnation, address = excluded.address, started_at = clock_timestamp(),
    heartbeat_at = clock_timestamp()
WHERE n.heartbeat_at < clock_timestamp() - interval '10 seconds' OR n.heartbeat_at = $3::timestamptz
RETURNING incarnation
