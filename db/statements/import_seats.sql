-- import_seats - adds seats, and gives those that stand already the attributes they have now.
--
-- $1 text org, $2 text event
-- $3 text[] seat, $4 text[] section, $5 text[] row, $6 text[] number, $7 text[] type (null: none),
-- $8 int8[] price, $9 float8[] x, $10 float8[] y, $11 jsonb[] attributes: no seat twice
-- $12 text actor (null: the system), $13 text request id (null: none)
--
-- Columns: added (how many are new, the same in each row), then a row per seat that stood and
-- changed (one of nulls when none did): seat, version, status, hold, usr, until, in_payment.
-- A seat keeps its state, held and sold ones too. A removed one comes back as available. A seat
-- that is as given already is not even locked. New seats begin at version 0 without an audit row.
-- Waits for rows that a batch has locked, up to lock_timeout (55P03). After lock_event, so that
-- only holds and releases change these rows meanwhile, and 23505 means: the event was new, and
-- somebody else made it at the same time.
-- Index: primary key of seats.
WITH req AS MATERIALIZED (
    SELECT * FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int8[],
        $9::float8[], $10::float8[], $11::jsonb[])
    AS u(seat, section, "row", number, type, price, x, y, attributes)),
stands AS MATERIALIZED (
    SELECT r.*, s.seat_id IS NOT NULL AS old, s.status = 'removed' AS gone,
        (s.section, s."row", s.number, s.type, s.price, s.x, s.y, s.attributes) IS DISTINCT FROM
        (r.section, r."row", r.number, r.type, r.price, r.x::real, r.y::real, r.attributes) AS differs
    FROM req r
    LEFT JOIN LATERAL (
        SELECT * FROM seats t
        WHERE t.org_id = $1::text AND t.event_id = $2::text AND t.seat_id = r.seat OFFSET 0) s ON true),
upd AS (
    UPDATE seats s SET section = r.section, "row" = r."row", number = r.number, type = r.type,
        price = r.price, x = r.x, y = r.y, attributes = r.attributes, version = s.version + 1,
        status = CASE WHEN s.status = 'removed' THEN 'available' ELSE s.status END
    FROM stands r
    WHERE r.old AND (r.gone OR r.differs)
      AND s.org_id = $1 AND s.event_id = $2 AND s.seat_id = r.seat
    RETURNING s.seat_id, s.version, s.status, s.hold_id, s.user_id, s.held_until, s.in_payment, r.gone),
ins AS (
    INSERT INTO seats (org_id, event_id, seat_id, section, "row", number, type, price, x, y, attributes)
    SELECT $1, $2, seat, section, "row", number, type, price, x, y, attributes
    FROM stands WHERE NOT old
    ORDER BY seat
    RETURNING 1),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) AS changed FROM upd),
aud AS (
    INSERT INTO audit_log (at, version, hold_id, held_until, action, org_id, event_id, seat_id,
        user_id, actor, request_id)
    SELECT clk.now, u.version, u.hold_id, u.held_until,
        CASE WHEN u.gone THEN 'seat_added' ELSE 'seat_changed' END::audit_action, $1, $2, u.seat_id,
        u.user_id, $12::text, $13::text
    FROM clk, upd u)
SELECT a.added, u.seat_id AS seat, u.version, u.status, u.hold_id AS hold, u.user_id AS usr,
    u.held_until AS until, u.in_payment
FROM (SELECT count(*) AS added FROM ins) a LEFT JOIN upd u ON true
