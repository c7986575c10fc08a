-- 0005 - the audit log by months, and from where each change came.
--
-- Months are partitions by `at` (UTC). make_audit_month makes one; this migration makes those that
-- are needed now, upkeep (src/upkeep/audit_log.c) those to come, and drops those that are older
-- than audit_retention. What no month takes is kept by audit_log_default, which should be empty.
--
-- The table as it was becomes the current month's partition, with all that is older: it is read
-- once, for its indexes and its bounds, and stands still meanwhile (about 4 s a million rows).
-- Nodes of the version before go on writing: the name, its columns and its ids are as they were.
--
-- Indexes. A btree on all rows costs every hold 3 to 5 % of Postgres' time, so there is one, in place
-- of that on the id, and BRIN ones, which cost too little to be measured. What was written since the
-- last summary (upkeep's summarize_audit_log, every 10 s) they count as a match.

ALTER TABLE audit_log RENAME TO audit_log_before;

CREATE TABLE audit_log (
    id         bigint GENERATED ALWAYS AS IDENTITY,
    at         timestamptz NOT NULL,
    version    bigint,
    hold_id    uuid,
    held_until timestamptz,
    action     audit_action NOT NULL,
    quantity   integer,
    org_id     text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    seat_id    text COLLATE "C",
    area_id    text COLLATE "C",
    user_id    text COLLATE "C",
    actor      text COLLATE "C",
    reason     text,
    request_id text,
    meta       jsonb,                           -- event_changed: what; checkouts: checkout_id, intent_id, ...
    client_ip  text,                            -- as the trusted proxies report it; null: the system
    user_agent text
) PARTITION BY RANGE (at);

SELECT setval(pg_get_serial_sequence('audit_log', 'id'), (SELECT COALESCE(max(id), 0) + 1 FROM audit_log_before), false);

ALTER TABLE audit_log_before DROP CONSTRAINT audit_log_pkey;
ALTER TABLE audit_log_before ALTER COLUMN id DROP IDENTITY;
ALTER TABLE audit_log_before ADD COLUMN client_ip text, ADD COLUMN user_agent text;

CREATE TABLE audit_log_default PARTITION OF audit_log DEFAULT;

-- audit_window, audit_newest, audit_find: an event's newest.
CREATE INDEX audit_log_event ON audit_log (org_id, event_id, at);
-- audit_find: a time's, an organization's.
CREATE INDEX audit_log_place ON audit_log USING brin (at, org_id text_bloom_ops (n_distinct_per_range = 64))
    WITH (pages_per_range = 32);
-- audit_find: a hold's, a user's, a seat's. Apart, since each search reads the whole index.
CREATE INDEX audit_log_hold ON audit_log USING brin (at, hold_id uuid_bloom_ops
    (n_distinct_per_range = 1600, false_positive_rate = 0.003)) WITH (pages_per_range = 64);
CREATE INDEX audit_log_user ON audit_log USING brin (at, user_id text_bloom_ops
    (n_distinct_per_range = 1600, false_positive_rate = 0.003)) WITH (pages_per_range = 64);
CREATE INDEX audit_log_seat ON audit_log USING brin (at, seat_id text_bloom_ops
    (n_distinct_per_range = 400, false_positive_rate = 0.003)) WITH (pages_per_range = 16);
-- audit_find: an action's. The two that a hold's way writes are frequent enough to be met without it.
CREATE INDEX audit_log_action ON audit_log (org_id, action, at)
    WHERE action <> ALL ('{seat_held,seat_released}'::audit_action[]);

-- False: it is there already. Attaching waits for nobody who writes; what audit_log_default has of
-- the month moves over.
CREATE FUNCTION make_audit_month(within timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    begins timestamptz := date_trunc('month', within, 'UTC');
    ends timestamptz := date_trunc('month', begins + interval '32 days', 'UTC');
    part text := 'audit_log_' || to_char(begins AT TIME ZONE 'UTC', 'YYYY_MM');
BEGIN
    IF to_regclass(part) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE audit_log)', part);
    LOCK TABLE audit_log_default IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('WITH moved AS (DELETE FROM audit_log_default WHERE at >= %L AND at < %L RETURNING *)
        INSERT INTO %I SELECT * FROM moved', begins, ends, part);
    EXECUTE format('ALTER TABLE audit_log ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part, begins, ends);
    RETURN true;
END $$;

-- Drops the months that ended longer ago than `keep`, and says which. All who write wait for it, so
-- it gives up soon when it has to wait itself.
CREATE FUNCTION drop_audit_months(keep interval) RETURNS SETOF text LANGUAGE plpgsql
SET lock_timeout = '50ms' AS $$
DECLARE
    part text;
BEGIN
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'audit_log'::regclass AND c.relname ~ '^audit_log_\d{4}_\d{2}$'
          AND (to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month') AT TIME ZONE 'UTC' <= clock_timestamp() - keep
        ORDER BY c.relname
    LOOP
        EXECUTE format('DROP TABLE %I', part);
        RETURN NEXT part;
    END LOOP;
END $$;

-- Since when the log is whole: '-infinity' until its first month was dropped. verify judges no event that is older.
CREATE FUNCTION audit_log_begins() RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN bool_or(pg_get_expr(c.relpartbound, c.oid) LIKE '%MINVALUE%') THEN '-infinity'::timestamptz
        ELSE min(to_date(right(c.relname, 7), 'YYYY_MM')::timestamp AT TIME ZONE 'UTC') END
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'audit_log'::regclass AND c.relname ~ '^audit_log_\d{4}_\d{2}$'
$$;

DO $$
DECLARE
    part text := 'audit_log_' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY_MM');
    ends timestamptz := date_trunc('month', date_trunc('month', clock_timestamp(), 'UTC') + interval '32 days', 'UTC');
BEGIN
    EXECUTE format('ALTER TABLE audit_log_before RENAME TO %I', part);
    EXECUTE format('ALTER TABLE audit_log ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)', part, ends);
    FOR month IN 1..3 LOOP
        PERFORM make_audit_month(ends + make_interval(months => month - 1));
    END LOOP;
END $$;
