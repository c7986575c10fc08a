-- count_units - what a user has on an event, and how much of it is in one hold.
--
-- $1 text org, $2 text event, $3 text user, $4 uuid hold
-- Columns: user_units (held and not over; and sold, unless it will be given back), hold_units.
-- Indexes: seat_holds_user, primary key of events.
SELECT COALESCE(sum(h.quantity), 0)::bigint AS user_units,
    COALESCE(sum(h.quantity) FILTER (WHERE h.hold_id = $4::uuid AND h.status = 'active'), 0)::bigint AS hold_units
FROM seat_holds h
WHERE h.org_id = $1::text AND h.event_id = $2::text AND h.user_id = $3::text
  AND h.status IN ('active', 'converted')
  AND CASE WHEN h.status = 'converted' THEN NOT (
          SELECT COALESCE(e.one_seat_per_user, e.kind = 'flight') FROM events e WHERE e.org_id = $1 AND e.event_id = $2)
      ELSE h.in_payment OR h.held_until > clock_timestamp() END
