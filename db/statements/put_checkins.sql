-- put_checkins - check-ins of passengers for flights: new ones, and names of those that stand.
--
-- $1 text org, $2 uuid[] ids for new ones, $3 text[] flight, $4 text[] passenger (no passenger of a
-- flight twice), $5 text[] last name
-- $6 text actor, $7 text request id, $8 text client's address, $9 text user agent
-- Columns (a row per check-in whose event is a flight, in order of the two): event, passenger, checkin,
-- made, changed (it stood, and its name is another one now).
-- Waits for a transaction that writes the same one, up to lock_timeout (55P03).
-- Indexes: primary key of events, checkins_org_id_event_id_passenger_id_key.
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
put AS (
    INSERT INTO checkins AS c (checkin_id, org_id, event_id, passenger_id, last_name, created_at, updated_at)
    SELECT u.id, $1::text, u.event, u.passenger, u.name, clk.now, clk.now
    FROM clk, unnest($2::uuid[], $3::text[], $4::text[], $5::text[]) AS u(id, event, passenger, name)
    JOIN events e ON e.org_id = $1::text AND e.event_id = u.event AND e.kind = 'flight'
    ORDER BY u.event, u.passenger
    ON CONFLICT (org_id, event_id, passenger_id) DO UPDATE SET last_name = excluded.last_name,
        updated_at = CASE WHEN c.last_name = excluded.last_name THEN c.updated_at ELSE excluded.updated_at END
    RETURNING c.checkin_id, c.event_id, c.passenger_id, c.last_name, c.state, c.created_at, c.updated_at),
done AS MATERIALIZED (
    SELECT put.*, created_at = clk.now AS made, created_at <> clk.now AND updated_at = clk.now AS changed FROM clk, put),
aud AS (
    INSERT INTO audit_log (at, action, org_id, event_id, user_id, actor, request_id, meta, client_ip, user_agent)
    SELECT clk.now, CASE WHEN d.made THEN 'checkin_created' ELSE 'checkin_changed' END::audit_action, $1::text,
        d.event_id, d.passenger_id, $6::text, $7::text,
        jsonb_build_object('checkin_id', d.checkin_id, 'last_name', d.last_name, 'state', d.state), $8::text, $9::text
    FROM clk, done d WHERE d.made OR d.changed
    RETURNING 1),
kept AS MATERIALIZED (
    SELECT must_equal((SELECT count(*) FROM done WHERE made OR changed), (SELECT count(*) FROM aud), 'audited') AS kept)
SELECT d.event_id AS event, d.passenger_id AS passenger, d.checkin_id AS checkin, d.made, d.changed
FROM kept, done d
ORDER BY d.event_id, d.passenger_id
