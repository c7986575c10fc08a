-- drop_audit_months - drops the audit log's months that ended longer ago than they are kept.
--
-- $1 int8 microseconds that they are kept. Columns: dropped (a name each). 55P03: somebody reads the log; later.
SELECT part AS dropped FROM drop_audit_months($1::int8 * interval '1 microsecond') AS part
