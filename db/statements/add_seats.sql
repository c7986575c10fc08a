-- add_seats - adds the seats that don't stand yet; the second half of an import.
--
-- $1 text org, $2 text event
-- $3 text[] seat, $4 text[] section, $5 text[] row, $6 text[] number, $7 text[] type (null: none),
-- $8 int8[] price, $9 float8[] x, $10 float8[] y, $11 jsonb[] attributes: no seat twice
-- Columns: added. New seats begin at version 0 without an audit row; those that stand are not
-- touched or locked. After lock_event. Index: primary key of seats (no plan decides about it).
WITH ins AS (
    INSERT INTO seats (org_id, event_id, seat_id, section, "row", number, type, price, x, y, attributes)
    SELECT $1::text, $2::text, u.seat, u.section, u."row", u.number, u.type, u.price, u.x, u.y, u.attributes
    FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int8[],
        $9::float8[], $10::float8[], $11::jsonb[])
    AS u(seat, section, "row", number, type, price, x, y, attributes)
    ON CONFLICT (org_id, event_id, seat_id) DO NOTHING
    RETURNING 1)
SELECT count(*) AS added FROM ins
