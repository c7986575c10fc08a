-- 0004 - the audit log by months, and from where each change came.
--
-- Months are partitions by `at` (UTC). make_audit_month makes one; this migration makes those that
-- are needed now, upkeep (src/upkeep/audit_months.c) those to come, and drops those that are older
-- than audit_retention. What no month takes is kept by audit_log_default, which should be empty.
--
-- The table as it was becomes the current month's partition, with all that is older: it is read
-- once, for its indexes and its bounds, and stands still meanwhile (about 4 s a million rows).
-- Nodes of the version before go on writing: the name, its columns and its ids are as they were.
--
-- Indexes. Each btree on all rows costs every hold about 5 %, so there is one, in place of the
-- one on the id. All serve audit_page (db/reports), newest first.

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

-- Of an event, and of all that is asked within one.
CREATE INDEX audit_log_event ON audit_log (org_id, event_id, at);

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
