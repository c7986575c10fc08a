-- ended_offers - offers from waitlists, in the order of their places, and whether their hold has ended.
--
-- $1 int8 behind which place, $2 int4 how many at the most
-- Columns: org, entry, place, ended. Fewer rows than asked for: the last one was looked at.
-- Index: waitlist_offers; primary key of seat_holds.
SELECT w.org_id AS org, w.waitlist_id AS entry, w.place, offer_state(w.org_id, w.hold_id, NULL) <> 'OFFERED' AS ended
FROM waitlist w
WHERE w.status = 'OFFERED' AND w.place > $1::int8
ORDER BY w.place
LIMIT $2::int4
