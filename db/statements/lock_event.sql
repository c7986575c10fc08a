-- lock_event - makes changes of an event, its seats' attributes and its areas come one after the other.
--
-- $1 text org, $2 text event
-- Columns: version. No row: there is no such event. Waits up to lock_timeout (55P03).
-- Holds read the event's row without a lock, so they don't wait for this.
-- Index: primary key of events.
SELECT e.version FROM events e
WHERE e.org_id = $1::text AND e.event_id = $2::text
FOR NO KEY UPDATE
