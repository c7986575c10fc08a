-- hold_areas - takes quantities of areas; what comes first and fits is granted.
--
-- One array element per hold and area. A batch sums many holds of one area up in order and
-- moves its counter once, dropping what no longer fits (small ones behind a large one still do).
-- A hold of several areas comes alone in its transaction, since the sum knows one area only.
-- $1 int4[] which hold of the batch   $2 text[] org     $3 text[] event      $4 text[] area
-- $5 to $17: of the hold, as in hold_seats
-- $18 int4[] quantity
-- $19 bool[] the hold is of areas only: an active one of the same user, cart and quantities is the answer
-- $20 text[] client's address
--
-- Columns: pos, ord, code, taken, hold, until, price, version, born, now, held, sold (of the area).
-- code: ok | same (hold: the one that exists) | stale | event_not_found | event_closed |
--   area_not_found | too_many_seats | user_limit | area_full
-- status::text keeps the plan off seat_holds_due, by which it would read every active hold for each.
-- lock_areas and the users' locks come before it. P0001 when rows changed are not those promised.
-- Indexes: primary keys; seat_holds_user.
WITH req AS MATERIALIZED (
    SELECT * FROM unnest($1::int4[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::text[],
        $7::text[], $8::int4[], $9::text[], $10::int8[], $11::bool[], $12::text[], $13::text[],
        $14::text[], $15::int4[], $16::timestamptz[], $17::timestamptz[], $18::int4[], $19::bool[],
        $20::text[])
    WITH ORDINALITY AS u(ord, org, event, area, hold, usr, cart, ttl, source, ver, privileged,
        email, actor, rid, line, until, born, quantity, look, ip, pos)),
ev AS MATERIALIZED (
    SELECT e.* FROM (SELECT DISTINCT org, event FROM req) d
    JOIN events e ON e.org_id = d.org AND e.event_id = d.event),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
asked AS MATERIALIZED (
    SELECT ord, org, event, usr, cart, bool_and(look) AS look, sum(quantity) AS units,
        array_agg(area || ':' || quantity ORDER BY area) AS wish
    FROM req GROUP BY ord, org, event, usr, cart),
same AS MATERIALIZED (
    SELECT a.ord, x.hold_id, x.held_until, x.created_at FROM asked a CROSS JOIN clk
    CROSS JOIN LATERAL (
        SELECT h.hold_id, min(h.held_until) AS held_until, min(h.created_at) AS created_at
        FROM seat_holds h
        WHERE h.org_id = a.org AND h.event_id = a.event AND h.user_id = a.usr
          AND h.status IN ('active', 'converted') AND h.status::text = 'active'
          AND h.cart_token = a.cart AND h.held_until > clk.now
        GROUP BY h.hold_id
        HAVING array_agg(h.area_id || ':' || h.quantity ORDER BY h.area_id) = a.wish
           AND bool_and(h.seat_id IS NULL)
        ORDER BY h.hold_id LIMIT 1) x
    WHERE a.look),
counted AS MATERIALIZED (
    SELECT a.ord, c.units FROM asked a
    JOIN ev e ON e.org_id = a.org AND e.event_id = a.event AND e.max_seats_per_user > 0
    CROSS JOIN clk
    CROSS JOIN LATERAL (
        SELECT COALESCE(sum(h.quantity), 0) AS units FROM seat_holds h
        WHERE h.org_id = a.org AND h.event_id = a.event AND h.user_id = a.usr
          AND h.status IN ('active', 'converted')
          AND CASE WHEN h.status = 'converted' THEN NOT COALESCE(e.one_seat_per_user, e.kind = 'flight')
              ELSE h.in_payment OR h.held_until > clk.now END) c),
j AS MATERIALIZED (
    SELECT r.*, clk.now, e.hold_ttl, a.capacity, a.held, a.sold, a.price, a.version,
        s.hold_id AS same_hold, s.held_until AS same_until, s.created_at AS same_born,
        CASE
        WHEN e.version IS NULL THEN 'event_not_found'
        WHEN e.version <> r.ver THEN 'stale'
        WHEN e.status = 'cancelled' OR (e.status <> 'on_sale' AND NOT r.privileged) THEN 'event_closed'
        WHEN a.area_id IS NULL THEN 'area_not_found'
        WHEN s.hold_id IS NOT NULL THEN 'same'
        WHEN r.ver IS NULL THEN 'ok' -- paid for: no limit counts
        WHEN q.units > e.max_seats_per_hold THEN 'too_many_seats'
        WHEN e.max_seats_per_user > 0 AND c.units + q.units > e.max_seats_per_user THEN 'user_limit'
        ELSE 'ok' END AS code
    FROM req r CROSS JOIN clk
    JOIN asked q ON q.ord = r.ord
    LEFT JOIN ev e ON e.org_id = r.org AND e.event_id = r.event
    LEFT JOIN areas a ON a.org_id = r.org AND a.event_id = r.event AND a.area_id = r.area
    LEFT JOIN same s ON s.ord = r.ord
    LEFT JOIN counted c ON c.ord = r.ord),
f AS MATERIALIZED (
    SELECT j.*, fit(CASE WHEN code = 'ok' THEN quantity ELSE 0 END::bigint, (capacity - held - sold)::bigint)
        OVER (PARTITION BY org, event, area ORDER BY pos) AS filled
    FROM j),
g AS MATERIALIZED (
    SELECT f.*, CASE WHEN code = 'ok' AND filled = lag(filled, 1, 0::bigint) OVER (PARTITION BY org, event, area ORDER BY pos)
        THEN 'area_full' ELSE code END AS verdict
    FROM f),
t AS MATERIALIZED (
    SELECT g.*, bool_and(verdict = 'ok') OVER (PARTITION BY ord) AS taken,
        COALESCE(until, now + make_interval(secs => CASE WHEN ttl > 0 THEN ttl ELSE hold_ttl END)) AS ends
    FROM g),
upd AS (
    UPDATE areas a SET held = a.held + s.units, version = a.version + s.n
    FROM (SELECT org, event, area, sum(quantity) AS units, count(*) AS n FROM t WHERE taken GROUP BY 1, 2, 3) s
    WHERE a.org_id = s.org AND a.event_id = s.event AND a.area_id = s.area
    RETURNING a.org_id, a.event_id, a.area_id, a.held, a.sold, a.version, s.n, s.units),
made AS MATERIALIZED (
    SELECT t.*, u.held AS held_now, u.sold AS sold_now,
        u.version - u.n + row_number() OVER (PARTITION BY t.org, t.event, t.area ORDER BY t.pos) AS made_version
    FROM t JOIN upd u ON u.org_id = t.org AND u.event_id = t.event AND u.area_id = t.area
    WHERE t.taken),
ins AS (
    INSERT INTO seat_holds (hold_id, line, held_until, created_at, price, quantity, org_id, event_id,
        area_id, user_id, cart_token, source, customer_email)
    SELECT hold, line, ends, COALESCE(born, now), price, quantity, org, event, area, usr, cart, source, email
    FROM made
    RETURNING 1),
aud AS (
    INSERT INTO audit_log (at, version, hold_id, held_until, action, quantity, org_id, event_id, area_id,
        user_id, actor, request_id, client_ip)
    SELECT now, made_version, hold, ends, 'seat_held'::audit_action, quantity, org, event, area, usr, actor, rid, ip
    FROM made
    RETURNING 1),
kept AS MATERIALIZED (
    SELECT must_equal((SELECT count(*) FROM t WHERE taken), (SELECT count(*) FROM ins), 'area lines written')
       AND must_equal((SELECT COALESCE(sum(quantity), 0) FROM t WHERE taken), (SELECT COALESCE(sum(units), 0)::bigint FROM upd), 'area units held')
       AND must_equal((SELECT count(*) FROM t WHERE taken), (SELECT count(*) FROM aud), 'audited') AS kept)
SELECT t.pos, t.ord, t.verdict AS code, t.taken,
    CASE WHEN t.code = 'same' THEN t.same_hold ELSE t.hold END AS hold,
    CASE WHEN t.code = 'same' THEN t.same_until ELSE t.ends END AS until,
    t.price, COALESCE(m.made_version, t.version) AS version,
    CASE WHEN t.code = 'same' THEN t.same_born ELSE COALESCE(t.born, t.now) END AS born, t.now,
    COALESCE(m.held_now, t.held) AS held, COALESCE(m.sold_now, t.sold) AS sold
FROM kept, t LEFT JOIN made m ON m.pos = t.pos
ORDER BY t.pos
