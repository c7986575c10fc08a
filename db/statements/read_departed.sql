-- read_departed - the nodes that left cleanly within ten minutes, the last ones first.
--
-- $1 int4 how many at the most
-- Columns: incarnation, records (the number of its last), age (microseconds since it left).
-- Walks departed_nodes, a table of a few rows.
SELECT incarnation, records, (extract(epoch FROM clock_timestamp() - left_at) * 1000000)::int8 AS age
FROM departed_nodes
WHERE left_at > clock_timestamp() - interval '10 minutes'
ORDER BY left_at DESC
LIMIT $1::int4
