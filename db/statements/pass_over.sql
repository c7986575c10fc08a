-- pass_over - an entry of a waitlist could not be served because of its user (a limit, say): others come first for a while.
--
-- $1 text org, $2 uuid entry, $3 int8 how long at least, $4 int8 and at most, in microseconds
-- Columns: none that matter. Twice as long as it has waited: who can't be served for long is asked less and less often.
-- Index: primary key.
WITH upd AS (
    UPDATE waitlist SET passed_over = clock_timestamp()
        + LEAST(GREATEST(2 * (clock_timestamp() - created_at), $3::int8 * interval '1 microsecond'), $4::int8 * interval '1 microsecond')
    WHERE waitlist_id = $2::uuid AND org_id = $1::text AND status = 'QUEUED'
    RETURNING 1)
SELECT count(*) FROM upd
