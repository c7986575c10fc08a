-- nodes - the table of living nodes.
--
-- No parameters. Columns: node, incarnation, address, heartbeat_age_ms.
SELECT node_id, incarnation, address,
    greatest(0, extract(epoch FROM clock_timestamp() - heartbeat_at) * 1000)::int8
FROM nodes
ORDER BY node_id
LIMIT 1000
