-- postgres_server - which Postgres answers.
--
-- No parameters. Columns: version, system identifier (null: this role may not see it), timeline.
SELECT current_setting('server_version'),
    CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
        THEN (SELECT system_identifier::text FROM pg_control_system()) END,
    ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int8
