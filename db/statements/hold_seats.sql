-- hold_seats - takes seats for any number of holds; each hold gets all its seats or none.
--
-- One array element per seat; the columns of a hold are repeated for each of its seats.
-- $1 int4[] which hold of the batch   $2 text[] org     $3 text[] event      $4 text[] seat
-- $5 uuid[] hold id                   $6 text[] user    $7 text[] cart token $8 int4[] ttl in s (0: the policy's)
-- $9 text[] source   $10 int8[] event version that the request was prepared with (null: whatever the policy is, what
--   is taken was paid for: only the seats and the event's end refuse it)
-- $11 bool[] may hold before or after the sale         $12 text[] customer's e-mail
-- $13 text[] actor   $14 text[] request id             $15 int4[] line number in the hold
-- $16 timestamptz[] end of an existing hold that grows (null: a new hold)
-- $17 timestamptz[] birth of that hold                  $18 bool[] the first of the batch to name this seat
-- $19 text[] client's address. Not its user agent: that would cost every hold 3 %.
--
-- Columns: pos, ord, code, taken (the whole hold was granted), version, status, in_payment,
-- hold, user, until (of the seat as it now is), section, row, number, price, born, now, takeover (another's hold was over),
-- over_why (as what it ended).
-- code: ok | stale (policy changed: prepare again) | event_not_found | event_closed |
--   seat_not_found | too_many_seats | user_limit | seat_taken | own (the user has it) | seat_sold |
--   seat_blocked | locked (another transaction is deciding)
-- Of elements that name one seat only the first may get it; the others hear "locked" unless it is
-- plainly taken. Two elements of one batch must not have the same user where the policy counts.
-- P0001 when the rows changed are not those promised; 23505 on the backstop when a line was
-- inserted after this statement's snapshot: the batch is repeated once.
-- Indexes: primary keys; seat_holds_user for the count; seat_holds_backstop guards.
--
-- status::text keeps the plan off the partial indexes, which look cheaper than the key while the
-- table is small.
-- OFFSET 0 keeps a look-up where it is written: done only for the rows that need it, by its key.
-- Order inside: lock what may be free (nothing waits: SKIP LOCKED), then read the clock, then judge.
-- The clock in `lk` only spares the lock of what is plainly taken; `j` judges again.
WITH req AS MATERIALIZED (
    SELECT * FROM unnest($1::int4[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::text[],
        $7::text[], $8::int4[], $9::text[], $10::int8[], $11::bool[], $12::text[], $13::text[],
        $14::text[], $15::int4[], $16::timestamptz[], $17::timestamptz[], $18::bool[], $19::text[])
    WITH ORDINALITY AS u(ord, org, event, seat, hold, usr, cart, ttl, source, ver, privileged,
        email, actor, rid, line, until, born, first, ip, pos)),
ev AS MATERIALIZED (
    SELECT e.* FROM (SELECT DISTINCT org, event FROM req) d
    JOIN events e ON e.org_id = d.org AND e.event_id = d.event),
lk AS MATERIALIZED (
    SELECT r.pos, s.status, s.hold_id, s.user_id, s.held_until, s.version
    FROM req r
    JOIN seats s ON s.org_id = r.org AND s.event_id = r.event AND s.seat_id = r.seat
    WHERE r.first AND (s.status = 'available'
       OR (s.status = 'held' AND NOT s.in_payment AND s.held_until <= clock_timestamp()))
    FOR NO KEY UPDATE OF s SKIP LOCKED),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) AS locked FROM lk),
counted AS MATERIALIZED (
    SELECT d.ord, c.units
    FROM (SELECT DISTINCT r.ord, r.org, r.event, r.usr, COALESCE(e.one_seat_per_user, e.kind = 'flight') AS one_seat_per_user
          FROM req r
          JOIN ev e ON e.org_id = r.org AND e.event_id = r.event
          WHERE e.max_seats_per_user > 0) d
    CROSS JOIN clk
    CROSS JOIN LATERAL (
        SELECT COALESCE(sum(h.quantity), 0) AS units FROM seat_holds h
        WHERE h.org_id = d.org AND h.event_id = d.event AND h.user_id = d.usr
          AND h.status IN ('active', 'converted')
          AND CASE WHEN h.status = 'converted' THEN NOT d.one_seat_per_user -- it will be given back
              ELSE h.in_payment OR h.held_until > clk.now END) c),
j AS MATERIALIZED ( -- what is narrow and read often stands first: rows are taken apart up to the last column needed
    SELECT r.pos, r.ord, l.pos IS NOT NULL AND l.status = 'held' AS takeover,
        CASE
        WHEN e.version IS NULL THEN 'event_not_found'
        WHEN e.version <> r.ver THEN 'stale'
        WHEN e.status = 'cancelled' OR (e.status <> 'on_sale' AND NOT r.privileged) THEN 'event_closed'
        WHEN l.pos IS NOT NULL THEN
            CASE WHEN l.status = 'available' OR l.held_until <= clk.now THEN 'ok' ELSE 'locked' END
        WHEN m.status IS NULL OR m.status = 'removed' THEN 'seat_not_found'
        WHEN m.status = 'sold' THEN 'seat_sold'
        WHEN m.status = 'blocked' THEN 'seat_blocked'
        WHEN m.status = 'held' AND (m.in_payment OR m.held_until > clk.now) THEN
            CASE WHEN m.user_id = r.usr THEN 'own' ELSE 'seat_taken' END
        ELSE 'locked' END AS code,
        clk.now, COALESCE(r.until, clk.now + make_interval(secs => CASE WHEN r.ttl > 0 THEN r.ttl ELSE e.hold_ttl END)) AS ends,
        COALESCE(r.born, clk.now) AS born, r.hold, r.line,
        CASE WHEN r.ver IS NOT NULL THEN e.max_seats_per_hold END AS max_seats_per_hold,
        CASE WHEN r.ver IS NOT NULL THEN e.max_seats_per_user END AS max_seats_per_user, c.units,
        COALESCE(l.version, m.version) AS seen_version,
        COALESCE(l.status, m.status) AS seen_status,
        COALESCE(l.hold_id, m.hold_id) AS seen_hold,
        COALESCE(l.held_until, m.held_until) AS seen_until,
        COALESCE(m.in_payment, false) AS seen_payment,
        COALESCE(l.user_id, m.user_id) AS seen_user,
        r.org, r.event, r.seat, r.usr, r.cart, r.source, r.email, r.actor, r.rid, r.ip
    FROM req r CROSS JOIN clk
    LEFT JOIN ev e ON e.org_id = r.org AND e.event_id = r.event
    LEFT JOIN counted c ON c.ord = r.ord
    LEFT JOIN lk l ON l.pos = r.pos
    LEFT JOIN LATERAL (
        SELECT s.status, s.hold_id, s.user_id, s.held_until, s.version, s.in_payment FROM seats s
        WHERE l.pos IS NULL AND s.org_id = r.org AND s.event_id = r.event AND s.seat_id = r.seat
        OFFSET 0) m ON true),
g AS ( -- seats that the user has already neither count nor stand in the way of a limit
    SELECT ord, bool_and(code = 'ok') AS free,
        COALESCE(count(*) FILTER (WHERE code <> 'own') > max(max_seats_per_hold), false) AS too_many,
        COALESCE(max(max_seats_per_user) > 0 AND count(*) FILTER (WHERE code <> 'own') > 0
            AND max(units) + count(*) FILTER (WHERE code <> 'own') > max(max_seats_per_user), false) AS over_limit
    FROM j GROUP BY ord),
t AS MATERIALIZED (
    SELECT g.free AND NOT g.too_many AND NOT g.over_limit AS taken, g.too_many, g.over_limit, j.*
    FROM j JOIN g ON g.ord = j.ord),
upd AS (
    UPDATE seats s
    SET status = 'held', hold_id = t.hold, user_id = t.usr, held_until = t.ends,
        version = s.version + 1 + t.takeover::int
    FROM t
    WHERE t.taken AND s.org_id = t.org AND s.event_id = t.event AND s.seat_id = t.seat
    RETURNING t.pos, t.ord, t.takeover, t.now, t.ends, t.born, t.hold, t.line, s.version, s.price, t.seen_hold,
        t.seen_until, s.section, s."row", s.number, t.org, t.event, t.seat, t.usr, t.cart, t.source, t.email,
        t.actor, t.rid, t.ip, t.seen_user),
over AS ( -- the lines of the holds that are taken over: found by their key, whatever the statistics say
    SELECT u.pos, u.org, u.event, u.now, u.seen_hold, h.line, ttl_reason(h.source) AS why FROM upd u
    CROSS JOIN LATERAL (
        SELECT s.line, s.source FROM seat_holds s
        WHERE s.hold_id = u.seen_hold AND s.seat_id = u.seat AND s.status::text = 'active' OFFSET 0) h
    WHERE u.takeover),
closed AS (
    UPDATE seat_holds h SET status = 'expired', reason = o.why, ended_at = o.now
    FROM over o
    WHERE h.hold_id = o.seen_hold AND h.line = o.line AND h.org_id = o.org AND h.event_id = o.event
      AND h.status::text = 'active'
    RETURNING 1),
ins AS ( -- reads `closed`: the old line must be closed before the backstop sees the new one
    INSERT INTO seat_holds (hold_id, line, held_until, created_at, price, org_id, event_id, seat_id,
        user_id, cart_token, source, customer_email)
    SELECT u.hold, u.line, u.ends, u.born, u.price, u.org, u.event, u.seat, u.usr, u.cart, u.source, u.email
    FROM (SELECT count(*) AS n FROM closed) c, upd u
    WHERE c.n >= 0
    RETURNING 1),
aud AS (
    INSERT INTO audit_log (at, version, hold_id, held_until, action, org_id, event_id, seat_id,
        user_id, actor, reason, request_id, client_ip)
    SELECT u.now, u.version - 1, u.seen_hold, u.seen_until, 'seat_released'::audit_action, u.org,
        u.event, u.seat, u.seen_user, NULL, o.why, u.rid, NULL
    FROM over o JOIN upd u ON u.pos = o.pos
    UNION ALL
    SELECT u.now, u.version, u.hold, u.ends, 'seat_held'::audit_action, u.org,
        u.event, u.seat, u.usr, u.actor, NULL, u.rid, u.ip
    FROM upd u
    RETURNING 1),
kept AS MATERIALIZED (
    SELECT must_equal(p.seats, (SELECT count(*) FROM upd), 'seats held')
       AND must_equal(p.seats, (SELECT count(*) FROM ins), 'lines written')
       AND must_equal(p.over, (SELECT count(*) FROM closed), 'lines closed')
       AND must_equal(p.seats + p.over, (SELECT count(*) FROM aud), 'audited') AS kept
    FROM (SELECT count(*) AS seats, count(*) FILTER (WHERE takeover) AS over FROM t WHERE taken) p)
SELECT x.* FROM kept, (
    SELECT u.pos, u.ord, 'ok' AS code, true AS taken, u.version, 'held'::seat_status AS status, false AS in_payment,
        u.hold, u.usr, u.ends AS until, u.section, u."row", u.number, u.price, u.born, u.now,
        u.takeover, CASE WHEN u.takeover THEN (SELECT o.why FROM over o WHERE o.pos = u.pos) END AS over_why
    FROM upd u
    UNION ALL
    SELECT t.pos, t.ord,
        CASE WHEN t.code IN ('stale', 'event_not_found', 'event_closed', 'seat_not_found') THEN t.code
             WHEN t.too_many THEN 'too_many_seats' WHEN t.over_limit THEN 'user_limit' ELSE t.code END,
        false, t.seen_version, t.seen_status, t.seen_payment, t.seen_hold, t.seen_user, t.seen_until,
        NULL, NULL, NULL, NULL, t.born, t.now, false, NULL
    FROM t WHERE NOT t.taken) x
ORDER BY x.pos
