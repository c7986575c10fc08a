-- warm_event - whether an event exists.
--
-- $1 text org, $2 text event
-- Columns (always one row): event_exists. Index: primary key of events.
SELECT EXISTS (SELECT 1 FROM events e WHERE e.org_id = $1::text AND e.event_id = $2::text) AS event_exists
