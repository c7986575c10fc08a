-- change_holds - extend, confirm, transfer, release and expire holds, and what payments do to them:
-- any mix, one change per hold.
--
-- One array element per hold. lock_keys has the holds' locks, lock_areas their areas, so that
-- the lines read here are the newest; seats are locked here and never waited for.
-- $1 int4[] which request of the batch
-- $2 text[] what: extend | confirm | transfer | cancel | remove | expire, and of payments:
--   pay (one begins: nothing but what follows ends the hold) | sell (it is paid, in time or not) |
--   fail (it is not: released) | unpay (it was never asked for: as before)
-- $3 text[] org   $4 uuid[] hold   $5 text[] whose hold it must be (null: anybody's)
-- $6 int4[] extend: seconds (0: the policy's)           $7 text[] transfer: to whom
-- $8 text[] release: the reason   $9 text[] release: a client's own words
-- $10 text[] actor   $11 text[] request id   $12 bool[] a repeat of one that may have run
-- remove: $13 int4[] request, $14 text[] seat
-- confirm: $15 int4[] request, $16 text[] seat, $17 int8[] the version it must have
-- pay: $18 uuid[] the checkout that it must be in: the one that marked the lines of it which lived longest
--   (lines that came later have no mark)
-- $19 text[] client's address   $20 text[] user agent
-- $21 bool[] confirm: it is alone in its transaction, where its user can give back what they had bought before (return_seats)
-- $22 text[] event that it must be of (null: any)
--
-- Columns: ord, code, event, until (of the hold, after the change), now, born, owner, event_version,
-- then per changed line (null where nothing changed): seat, area, version, status (of the seat
-- after the change), hold, usr, seat_until, ended (the hold that has left the seat, or null), held, sold (of the area),
-- in_payment (of the seat), flight (of a row each: the hold's event is one), why (the seat was released).
-- code: ok | same (nothing to change) | expired (a release found the hold over: released as such) |
--   not_over (expire: its time has not come; until tells when) | hold_not_found | not_hold_owner |
--   hold_not_active | hold_expired | event_closed | payment_in_flight | version_conflict |
--   seat_not_found | user_limit | locked (a seat is locked by another transaction) |
--   alone (the policy is one seat per user: to be confirmed again, alone)
-- status::text keeps the plan off the partial indexes, which look cheaper than the key while the
-- table is small.
-- P0001 when rows changed are not those promised. Indexes: primary keys; seat_holds_user (transfer).
WITH req AS MATERIALIZED (
    SELECT * FROM unnest($1::int4[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::int4[],
        $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::bool[], $18::uuid[], $19::text[], $20::text[],
        $21::bool[], $22::text[])
    AS u(ord, what, org, hold, owner, secs, to_user, reason, notes, actor, rid, repeat, checkout, ip, agent, alone, bound)),
drops AS MATERIALIZED (SELECT * FROM unnest($13::int4[], $14::text[]) AS u(ord, seat)),
expect AS MATERIALIZED (SELECT * FROM unnest($15::int4[], $16::text[], $17::int8[]) AS u(ord, seat, version)),
ln AS MATERIALIZED (
    SELECT r.ord, r.what, h.* FROM req r
    CROSS JOIN LATERAL (
        SELECT * FROM seat_holds s WHERE s.hold_id = r.hold AND s.org_id = r.org OFFSET 0) h),
want AS MATERIALIZED ( -- the lines that the change is about
    SELECT l.* FROM ln l
    WHERE l.status = 'active'
      AND (l.what <> 'remove' OR EXISTS (SELECT 1 FROM drops d WHERE d.ord = l.ord AND d.seat = l.seat_id))),
lk AS MATERIALIZED (
    SELECT w.ord, w.line, s.status, s.hold_id, s.version, s.in_payment
    FROM want w
    JOIN seats s ON s.org_id = w.org_id AND s.event_id = w.event_id AND s.seat_id = w.seat_id
    FOR NO KEY UPDATE OF s SKIP LOCKED),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) AS locked FROM lk),
lines AS MATERIALIZED (
    SELECT ord, min(event_id) AS event, count(*) FILTER (WHERE status = 'active') AS active,
        count(*) FILTER (WHERE status = 'converted') AS converted,
        bool_or(status = 'expired') AS lapsed,
        (array_agg(status ORDER BY ended_at DESC NULLS LAST, line DESC) FILTER (WHERE status <> 'active'))[1] AS last_status,
        (array_agg(user_id ORDER BY status::text = 'active' DESC, ended_at DESC, line DESC))[1] AS owner,
        COALESCE(max(held_until) FILTER (WHERE status = 'active'), max(held_until)) AS until,
        sum(quantity) FILTER (WHERE status = 'active') AS units,
        min(created_at) AS born, min(source) AS source, bool_or(in_payment AND status = 'active') AS paying,
        (array_agg(checkout_id ORDER BY ended_at DESC NULLS FIRST) FILTER (WHERE checkout_id IS NOT NULL))[1] AS checkout
    FROM ln GROUP BY ord),
seats_of AS MATERIALIZED (
    SELECT w.ord, count(*) FILTER (WHERE w.seat_id IS NOT NULL) AS wanted, count(k.line) AS locked,
        count(*) FILTER (WHERE k.status = 'held' AND k.hold_id = w.hold_id) AS mine,
        bool_or(COALESCE(k.in_payment, false)) AS paying,
        bool_or(EXISTS (SELECT 1 FROM expect x WHERE x.ord = w.ord AND x.seat = w.seat_id AND x.version <> k.version)) AS moved
    FROM want w LEFT JOIN lk k ON k.ord = w.ord AND k.line = w.line
    GROUP BY w.ord),
dropped AS MATERIALIZED (
    SELECT d.ord, count(*) AS asked,
        count(*) FILTER (WHERE EXISTS (SELECT 1 FROM want w WHERE w.ord = d.ord AND w.seat_id = d.seat)) AS found,
        count(*) FILTER (WHERE EXISTS (
            SELECT 1 FROM ln l WHERE l.ord = d.ord AND l.seat_id = d.seat AND l.status = 'cancelled')) AS gone
    FROM drops d GROUP BY d.ord),
strangers AS MATERIALIZED ( -- versions asked for of seats that the hold doesn't have
    SELECT x.ord FROM expect x
    WHERE NOT EXISTS (SELECT 1 FROM ln l WHERE l.ord = x.ord AND l.seat_id = x.seat AND l.status IN ('active', 'converted'))
    GROUP BY x.ord),
c AS MATERIALIZED (
    SELECT r.*, l.event, l.owner AS has_owner, l.until, l.born, l.units, l.source, clk.now, e.extend_by, e.max_hold,
        e.version AS event_version, e.max_seats_per_user, e.one_hold_per_user,
        COALESCE(e.one_seat_per_user, e.kind = 'flight') AS one_seat_per_user, COALESCE(e.kind = 'flight', false) AS flight,
        GREATEST(l.until, LEAST(l.until + make_interval(secs => CASE WHEN r.secs > 0 THEN r.secs ELSE e.extend_by END),
            l.born + make_interval(secs => e.max_hold))) AS new_until,
        CASE
        WHEN l.ord IS NULL OR r.bound <> l.event THEN 'hold_not_found'
        WHEN r.what = 'transfer' AND r.repeat AND l.owner = r.to_user THEN 'same'
        WHEN r.owner IS NOT NULL AND r.owner <> l.owner THEN 'not_hold_owner'
        WHEN e.status = 'cancelled' AND r.what IN ('extend', 'confirm', 'transfer', 'pay', 'sell') THEN 'event_closed'
        WHEN l.active = 0 AND r.what = 'expire' THEN 'same'
        WHEN l.active = 0 AND r.what = 'cancel' THEN
            CASE WHEN l.converted > 0 THEN 'hold_not_active' ELSE 'same' END
        WHEN l.active = 0 AND r.what = 'confirm' AND l.converted > 0 THEN 'same'
        WHEN l.active = 0 AND r.what = 'remove' AND r.repeat AND d.gone = d.asked THEN 'same'
        WHEN l.active = 0 THEN CASE WHEN l.last_status = 'expired' THEN 'hold_expired' ELSE 'hold_not_active' END
        WHEN r.what IN ('sell', 'fail', 'unpay') THEN
            CASE WHEN NOT l.paying OR s.mine < s.locked THEN 'hold_not_active'
                WHEN s.locked < s.wanted THEN 'locked' ELSE 'ok' END
        WHEN l.paying OR s.paying THEN 'payment_in_flight'
        WHEN r.what = 'pay' AND l.checkout IS DISTINCT FROM r.checkout THEN 'hold_not_active'
        WHEN r.what = 'remove' AND d.found < d.asked THEN
            CASE WHEN l.until <= clk.now THEN 'hold_expired' WHEN r.repeat THEN 'same' ELSE 'seat_not_found' END
        WHEN s.locked < s.wanted THEN 'locked'
        WHEN r.what = 'expire' THEN CASE WHEN l.until > clk.now THEN 'not_over' ELSE 'ok' END
        WHEN r.what = 'cancel' THEN CASE WHEN l.until <= clk.now THEN 'expired' ELSE 'ok' END
        WHEN l.until <= clk.now OR l.lapsed OR s.mine < s.wanted THEN 'hold_expired'
        WHEN x.ord IS NOT NULL THEN 'seat_not_found'
        WHEN s.moved THEN 'version_conflict'
        WHEN r.what = 'transfer' AND r.to_user = l.owner THEN 'same'
        WHEN r.what = 'confirm' AND COALESCE(e.one_seat_per_user, e.kind = 'flight') AND NOT r.alone THEN 'alone'
        ELSE 'ok' END AS code
    FROM req r CROSS JOIN clk
    LEFT JOIN lines l ON l.ord = r.ord
    LEFT JOIN seats_of s ON s.ord = r.ord
    LEFT JOIN dropped d ON d.ord = r.ord
    LEFT JOIN strangers x ON x.ord = r.ord AND r.what = 'confirm'
    LEFT JOIN events e ON e.org_id = r.org AND e.event_id = l.event),
full_hands AS MATERIALIZED ( -- a transfer may not give somebody more than the policy lets them have
    SELECT c.ord FROM c
    CROSS JOIN LATERAL (
        SELECT COALESCE(sum(h.quantity), 0) AS units, count(*) FILTER (WHERE h.status = 'active') AS lines
        FROM seat_holds h
        WHERE h.org_id = c.org AND h.event_id = c.event AND h.user_id = c.to_user
          AND h.status IN ('active', 'converted')
          AND CASE WHEN h.status = 'converted' THEN NOT c.one_seat_per_user ELSE h.in_payment OR h.held_until > c.now END) u
    WHERE c.what = 'transfer' AND c.code = 'ok'
      AND ((c.max_seats_per_user > 0 AND u.units + c.units > c.max_seats_per_user)
           OR (c.one_hold_per_user AND u.lines > 0))),
v AS MATERIALIZED (
    SELECT c.*, CASE WHEN f.ord IS NOT NULL THEN 'user_limit'
        WHEN c.code = 'ok' AND c.what = 'extend' AND c.new_until <= c.until THEN 'same'
        ELSE c.code END AS verdict,
        r.over, CASE WHEN r.over THEN ttl_reason(c.source) ELSE c.reason END AS why
    FROM c LEFT JOIN full_hands f ON f.ord = c.ord
    CROSS JOIN LATERAL (SELECT c.what = 'expire' OR c.code = 'expired' AS over) r),
act AS MATERIALIZED ( -- the lines that really change; of a hold that is over only the seats it still has
    SELECT v.ord, v.what, v.verdict, v.now, v.actor, v.rid, v.ip, v.agent, v.notes, v.over, v.why, v.to_user, v.new_until,
        w.hold_id, w.line, w.org_id, w.event_id, w.seat_id, w.area_id, w.quantity, w.user_id, w.held_until,
        k.line IS NOT NULL AND k.status = 'held' AND k.hold_id = w.hold_id AS has_seat,
        v.what IN ('extend', 'transfer', 'pay', 'unpay') AS keeps, v.what IN ('confirm', 'sell') AS sells
    FROM v JOIN want w ON w.ord = v.ord LEFT JOIN lk k ON k.ord = w.ord AND k.line = w.line
    WHERE v.verdict IN ('ok', 'expired')),
upd AS (
    UPDATE seats s SET
        version = s.version + 1,
        status = CASE WHEN a.keeps THEN 'held' WHEN a.sells THEN 'sold' ELSE 'available' END::seat_status,
        hold_id = CASE WHEN a.keeps OR a.sells THEN s.hold_id END,
        user_id = CASE WHEN a.what = 'transfer' THEN a.to_user WHEN a.keeps OR a.sells THEN s.user_id END,
        held_until = CASE WHEN a.what = 'extend' THEN a.new_until WHEN a.keeps THEN s.held_until END,
        in_payment = a.what = 'pay'
    FROM act a
    WHERE a.has_seat AND s.org_id = a.org_id AND s.event_id = a.event_id AND s.seat_id = a.seat_id
    RETURNING a.ord, a.line, s.version, s.status, s.hold_id, s.user_id, s.held_until, s.in_payment),
updh AS (
    UPDATE seat_holds h SET
        status = CASE WHEN a.keeps THEN 'active' WHEN a.sells THEN 'converted'
            WHEN a.over THEN 'expired' ELSE 'cancelled' END::hold_status,
        held_until = CASE WHEN a.what = 'extend' THEN a.new_until ELSE h.held_until END,
        user_id = CASE WHEN a.what = 'transfer' THEN a.to_user ELSE h.user_id END,
        in_payment = a.what = 'pay',
        ended_at = CASE WHEN a.keeps THEN NULL ELSE a.now END,
        reason = CASE WHEN a.keeps OR a.sells THEN NULL ELSE a.why END,
        notes = CASE WHEN a.keeps OR a.sells THEN h.notes ELSE COALESCE(a.notes, h.notes) END,
        ticket_ids = CASE WHEN a.sells THEN ARRAY(SELECT uuid_v7() FROM generate_series(1, h.quantity)) ELSE h.ticket_ids END
    FROM act a
    WHERE h.hold_id = a.hold_id AND h.line = a.line AND h.org_id = a.org_id AND h.event_id = a.event_id
      AND h.status::text = 'active'
    RETURNING a.ord, a.line, h.held_until, h.user_id),
moves AS MATERIALIZED (
    SELECT org_id, event_id, area_id, count(*) AS n,
        sum(CASE WHEN keeps THEN 0 ELSE quantity END) AS out,
        sum(CASE WHEN sells THEN quantity ELSE 0 END) AS sold
    FROM act WHERE area_id IS NOT NULL GROUP BY 1, 2, 3),
upda AS (
    UPDATE areas r SET held = r.held - m.out, sold = r.sold + m.sold, version = r.version + m.n
    FROM moves m
    WHERE r.org_id = m.org_id AND r.event_id = m.event_id AND r.area_id = m.area_id
    RETURNING r.org_id, r.event_id, r.area_id, r.held, r.sold, r.version, m.n),
done AS MATERIALIZED (
    SELECT a.*, COALESCE(u.version, r.version - r.n + row_number() OVER (PARTITION BY a.org_id, a.event_id, a.area_id ORDER BY a.ord, a.line)) AS version,
        u.status AS seat_status, u.hold_id AS seat_hold, u.user_id AS seat_user, u.held_until AS seat_until, u.in_payment AS seat_payment,
        h.held_until AS line_until, h.user_id AS line_user, r.held AS area_held, r.sold AS area_sold
    FROM act a
    JOIN updh h ON h.ord = a.ord AND h.line = a.line
    LEFT JOIN upd u ON u.ord = a.ord AND u.line = a.line
    LEFT JOIN upda r ON r.org_id = a.org_id AND r.event_id = a.event_id AND r.area_id = a.area_id),
aud AS (
    INSERT INTO audit_log (at, version, hold_id, held_until, action, quantity, org_id, event_id, seat_id,
        area_id, user_id, actor, reason, request_id, client_ip, user_agent)
    SELECT now, version, hold_id, line_until,
        CASE what WHEN 'extend' THEN 'hold_extended' WHEN 'transfer' THEN 'hold_transferred'
            WHEN 'pay' THEN 'payment_started' WHEN 'unpay' THEN 'payment_stopped'
            WHEN 'confirm' THEN 'seat_sold' WHEN 'sell' THEN 'seat_sold' ELSE 'seat_released' END::audit_action,
        CASE WHEN area_id IS NOT NULL THEN quantity END, org_id, event_id, seat_id, area_id,
        line_user, CASE WHEN over THEN NULL ELSE actor END,
        CASE WHEN keeps OR sells THEN NULL ELSE why END, rid,
        CASE WHEN over THEN NULL ELSE ip END, CASE WHEN over THEN NULL ELSE agent END
    FROM done WHERE seat_status IS NOT NULL OR area_id IS NOT NULL
    RETURNING 1),
kept AS MATERIALIZED (
    SELECT must_equal((SELECT count(*) FROM act WHERE has_seat), (SELECT count(*) FROM upd), 'seats changed')
       AND must_equal((SELECT count(*) FROM act), (SELECT count(*) FROM updh), 'lines changed')
       AND must_equal((SELECT count(*) FROM moves), (SELECT count(*) FROM upda), 'areas changed')
       AND must_equal((SELECT count(*) FROM act WHERE has_seat OR area_id IS NOT NULL), (SELECT count(*) FROM aud), 'audited') AS kept)
SELECT v.ord, v.verdict AS code, v.event,
    CASE WHEN v.verdict = 'ok' AND v.what = 'extend' THEN v.new_until ELSE v.until END AS until, v.now, v.born,
    v.has_owner AS owner, v.event_version,
    d.seat_id AS seat, d.area_id AS area, d.version, d.seat_status AS status, d.seat_hold AS hold, d.seat_user AS usr,
    d.seat_until, CASE WHEN d.seat_hold IS NULL OR d.seat_status = 'sold' THEN d.hold_id END AS ended,
    d.area_held AS held, d.area_sold AS sold, COALESCE(d.seat_payment, false) AS in_payment, v.flight,
    CASE WHEN NOT (d.keeps OR d.sells) THEN d.why END AS why
FROM kept, v LEFT JOIN done d ON d.ord = v.ord
ORDER BY v.ord, d.line
