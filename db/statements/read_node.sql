-- read_node - the row of one node, to see whether its heart beats.
--
-- $1 text node id
-- Columns: heartbeat_at, address. No row: there is no such node. Index: primary key of nodes.
SELECT heartbeat_at, address FROM nodes WHERE node_id = $1::text
