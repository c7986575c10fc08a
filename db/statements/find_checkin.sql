-- find_checkin - the check-in of a passenger who says a PNR and a name.
--
-- $1 text org, $2 text PNR, $3 text last name, $4 int8 how long a token is good, in microseconds
-- Columns: those of read_checkin, then token_ends. No row: nobody fits.
-- A PNR is folded as ASCII, as the count of its wrong tries is: no other way to write it gives more of them.
-- The newest of that PNR whose name fits and whose flight isn't cancelled; a PNR is used again after
-- years. What was said is folded once, whether or not there is such a PNR; one that there is costs the comparison of its names.
-- Indexes: checkins_pnr, primary keys, seat_holds_user.
WITH said AS MATERIALIZED (SELECT upper(btrim($2::text, E' \t\n\r') COLLATE "C") AS pnr, name_key($3::text) AS name)
SELECT c.checkin_id AS checkin, c.event_id AS event, c.passenger_id AS passenger, c.last_name, c.state,
    (c.baggage_weight * 100)::int8 AS weight, c.payment_intent_id AS intent, c.current_seat AS seat, c.created_at AS created,
    clock_timestamp() + $4::int8 * interval '1 microsecond' AS token_ends
FROM said CROSS JOIN LATERAL (
    SELECT n.checkin_id FROM checkins n JOIN events e ON e.org_id = n.org_id AND e.event_id = n.event_id
    WHERE n.org_id = $1::text AND upper(n.passenger_id) = said.pnr
      AND name_key(n.last_name) = said.name AND e.status <> 'cancelled'
    ORDER BY n.created_at DESC, n.checkin_id DESC LIMIT 1) f
JOIN checkins_shown c ON c.checkin_id = f.checkin_id AND c.org_id = $1::text
