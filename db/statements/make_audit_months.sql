-- make_audit_months - the audit log's partitions of this month and of those to come, as far as they are missing.
--
-- $1 int4 months ahead. Columns: made (null: another node is at it).
SELECT CASE WHEN pg_try_advisory_xact_lock(7525352680829580149) THEN (
    SELECT count(*) FILTER (WHERE make_audit_month(clock_timestamp() + make_interval(months => ahead)))
    FROM generate_series(0, $1::int4) AS g(ahead)) END AS made
