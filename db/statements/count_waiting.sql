-- count_waiting - how many wait, for /metrics.
--
-- Columns: waiting. Index: waitlist_queue.
SELECT count(*) AS waiting FROM waitlist WHERE status = 'QUEUED'
