-- node_leave - takes this node out of the table of living nodes, at a clean stop.
--
-- $1 text node id, $2 int8 incarnation
-- No columns that matter. Index: primary key of nodes.
DELETE FROM nodes WHERE node_id = $1::text AND incarnation = $2::int8
