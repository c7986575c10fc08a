-- 0007 - which was a user's last hold, and did it run out? (find_holds)
--
-- A migration of its own: whoever holds or releases waits while it is built (about a second a
-- million rows), and whoever reads doesn't. No row enters it while it is active.
CREATE INDEX seat_holds_ended ON seat_holds (org_id, event_id, user_id, hold_id)
    WHERE status IN ('expired', 'cancelled');
