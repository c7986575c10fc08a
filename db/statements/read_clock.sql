-- read_clock - the database's clock. Columns: now.
SELECT clock_timestamp() AS now
