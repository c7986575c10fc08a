-- node_leave - takes this node out of the table of living nodes, at a clean stop.
--
-- $1 text node id, $2 int8 incarnation, $3 int8 the number of its last record
-- No columns that matter. Indexes: primary keys of nodes and departed_nodes (tables of a few rows).
WITH me AS (
    DELETE FROM nodes WHERE node_id = $1::text AND incarnation = $2::int8
    RETURNING incarnation),
old AS (
    DELETE FROM departed_nodes WHERE left_at < clock_timestamp() - interval '10 minutes')
INSERT INTO departed_nodes (incarnation, records) SELECT incarnation, $3::int8 FROM me
