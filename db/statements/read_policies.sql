-- read_policies - status and policy of events, for the node's memory of them.
--
-- $1 text[] orgs, $2 text[] events
-- Columns: org, event, version, status, kind, currency, hold_ttl, extend_by, max_hold,
-- max_seats_per_hold, max_seats_per_user, one_hold_per_user, one_seat_per_user, no_single_seat_gap.
-- An event that does not exist has no row. Index: primary key.
SELECT e.org_id AS org, e.event_id AS event, e.version, e.status, e.kind, e.currency, e.hold_ttl, e.extend_by,
    e.max_hold, e.max_seats_per_hold, e.max_seats_per_user, e.one_hold_per_user,
    COALESCE(e.one_seat_per_user, e.kind = 'flight') AS one_seat_per_user, e.no_single_seat_gap
FROM (SELECT DISTINCT org, event FROM unnest($1::text[], $2::text[]) AS u(org, event)) u
JOIN events e ON e.org_id = u.org AND e.event_id = u.event
