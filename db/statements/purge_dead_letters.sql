-- purge_dead_letters - forgets dead letters that are old, or the oldest where there are too many.
--
-- $1 int8 for how many microseconds they are kept, $2 int8 rows that there may be, $3 int4 rows at the most
-- Columns: purged (old), trimmed (too many). Ids bound the count from above, as in trim_outbox.
-- Indexes: primary key, dead_letters_age.
WITH span AS MATERIALIZED (
    SELECT COALESCE((SELECT max(id) FROM dead_letters) - (SELECT min(id) FROM dead_letters) + 1, 0) AS most),
excess AS MATERIALIZED (
    SELECT CASE WHEN s.most > $2::int8 THEN GREATEST((SELECT count(*) FROM dead_letters) - $2::int8, 0) ELSE 0 END AS n FROM span s),
old AS MATERIALIZED (
    SELECT l.id FROM dead_letters l
    WHERE l.died_at < clock_timestamp() - $1::int8 * interval '1 microsecond'
    ORDER BY l.died_at LIMIT $3::int4),
many AS MATERIALIZED (
    SELECT l.id FROM dead_letters l
    ORDER BY l.id LIMIT LEAST($3::int4, (SELECT n FROM excess))),
gone AS (
    DELETE FROM dead_letters l WHERE l.id IN (SELECT id FROM old UNION SELECT id FROM many)
    RETURNING l.id)
SELECT count(*) FILTER (WHERE id IN (SELECT id FROM old)) AS purged,
    count(*) FILTER (WHERE id NOT IN (SELECT id FROM old)) AS trimmed
FROM gone
