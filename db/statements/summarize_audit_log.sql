-- summarize_audit_log - lets the audit log's BRIN indexes know what was written since; this and the last month only.
--
-- No parameters. Columns: ranges (null: another node is at it), astray (bytes of what no month took).
-- What was summarized stays so when it is cut off.
SELECT CASE WHEN pg_try_advisory_xact_lock(7525352680829580150) THEN (
    SELECT COALESCE(sum(brin_summarize_new_values(i.indexrelid)), 0)::bigint
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am a ON a.oid = x.relam AND a.amname = 'brin'
    WHERE i.indrelid IN (
        SELECT to_regclass('audit_log_' || to_char((clock_timestamp() - make_interval(months => ago)) AT TIME ZONE 'UTC', 'YYYY_MM'))
        FROM generate_series(0, 1) AS g(ago))) END AS ranges,
    pg_relation_size('audit_log_default') AS astray
