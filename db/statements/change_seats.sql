-- change_seats - gives seats that stand already the attributes they have now; the first half of an import.
--
-- $1 text org, $2 text event
-- $3 text[] seat, $4 text[] section, $5 text[] row, $6 text[] number, $7 text[] type (null: none),
-- $8 int8[] price, $9 float8[] x, $10 float8[] y, $11 jsonb[] attributes: no seat twice
-- $12 text actor (null: the system), $13 text request id (null: none),
-- $14 text client's address, $15 text user agent (null: the system)
--
-- Columns (a row per seat that changed): seat, version, status, hold, usr, until, in_payment, now.
-- A seat keeps its state, held and sold ones too. A removed one comes back as available. A seat
-- that is as given already is not even locked; one that doesn't exist is add_seats' work.
-- Waits for rows that a batch has locked, up to lock_timeout (55P03). After lock_event, so that
-- only holds and releases change these rows meanwhile.
-- Index: primary key of seats. Its plan must be made for the table as large as it is now: an
-- import replans first, and changes all its seats before it adds any.
-- org and event stand in `req`, so that the joins can only use the whole key: beside constants, a
-- table without statistics is walked event-wise.
WITH req AS MATERIALIZED (
    SELECT $1::text AS org, $2::text AS event, u.* FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int8[],
        $9::float8[], $10::float8[], $11::jsonb[])
    AS u(seat, section, "row", number, type, price, x, y, attributes)),
stands AS MATERIALIZED (
    SELECT r.*, s.status = 'removed' AS gone
    FROM req r
    CROSS JOIN LATERAL (
        SELECT * FROM seats t
        WHERE t.org_id = r.org AND t.event_id = r.event AND t.seat_id = r.seat OFFSET 0) s
    WHERE s.status = 'removed'
       OR (s.section, s."row", s.number, s.type, s.price, s.x, s.y, s.attributes) IS DISTINCT FROM
          (r.section, r."row", r.number, r.type, r.price, r.x::real, r.y::real, r.attributes)),
upd AS (
    UPDATE seats s SET section = r.section, "row" = r."row", number = r.number, type = r.type,
        price = r.price, x = r.x, y = r.y, attributes = r.attributes, version = s.version + 1,
        status = CASE WHEN s.status = 'removed' THEN 'available' ELSE s.status END
    FROM stands r
    WHERE s.org_id = r.org AND s.event_id = r.event AND s.seat_id = r.seat
    RETURNING s.seat_id, s.version, s.status, s.hold_id, s.user_id, s.held_until, s.in_payment, r.gone),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) AS changed FROM upd),
aud AS (
    INSERT INTO audit_log (at, version, hold_id, held_until, action, org_id, event_id, seat_id,
        user_id, actor, request_id, client_ip, user_agent)
    SELECT clk.now, u.version, u.hold_id, u.held_until,
        CASE WHEN u.gone THEN 'seat_added' ELSE 'seat_changed' END::audit_action, $1, $2, u.seat_id,
        u.user_id, $12::text, $13::text, $14::text, $15::text
    FROM clk, upd u)
SELECT u.seat_id AS seat, u.version, u.status, u.hold_id AS hold, u.user_id AS usr,
    u.held_until AS until, u.in_payment, clk.now
FROM clk, upd u
