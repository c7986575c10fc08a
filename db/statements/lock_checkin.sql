-- lock_checkin - one transaction at a time decides about a check-in and its payments.
--
-- $1 text org, $2 uuid check-in
-- Columns: none that matter. Waits, up to lock_timeout (55P03). Index: primary key.
SELECT checkin_id FROM checkins WHERE checkin_id = $2::uuid AND org_id = $1::text FOR NO KEY UPDATE
