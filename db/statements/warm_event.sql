-- warm_event - whether an event exists, and how many of its seats are held and not over.
--
-- $1 text org, $2 text event
-- Columns (always one row): event_exists, held. Index: primary key of events, seat_holds_backstop.
SELECT EXISTS (SELECT 1 FROM events e WHERE e.org_id = $1::text AND e.event_id = $2::text) AS event_exists,
    (SELECT count(*) FROM seat_holds h
     WHERE h.org_id = $1 AND h.event_id = $2 AND h.seat_id IS NOT NULL AND h.status = 'active'
       AND h.held_until > clock_timestamp()) AS held
