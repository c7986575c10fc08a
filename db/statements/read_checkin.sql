-- read_checkin - one check-in as it is shown.
--
-- $1 text org, $2 uuid check-in
-- Columns: checkin, event, passenger, last_name, state, weight (hundredths of a kilogram; null: not
-- weighed), intent (null: none), seat (that the passenger has for certain; null: none), created.
-- Indexes: primary keys, seat_holds_user.
SELECT c.checkin_id AS checkin, c.event_id AS event, c.passenger_id AS passenger, c.last_name, c.state,
    (c.baggage_weight * 100)::int8 AS weight, c.payment_intent_id AS intent, c.current_seat AS seat, c.created_at AS created
FROM checkins_shown c WHERE c.checkin_id = $2::uuid AND c.org_id = $1::text
