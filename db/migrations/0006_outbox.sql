-- 0006 - telling the world: who wants to hear what, how far each has been told, what nobody took.
--
-- `outbox` is a log: a row per domain event, written in the transaction that it speaks of, in an
-- order that can be told (below). Nothing in it changes when it is told. How far that has come
-- stands in `deliveries`, one row for each thing that must be told in order: an event of an
-- organization to its webhook, or one mail. So telling a thousand changes costs one update.
--
-- The order. Ids are drawn in the order of the changes of one seat, hold or checkout (its row's
-- lock is held until the commit), but transactions beside each other commit in any order: a
-- higher id may show before a lower one. So rows are handed out ("routed") only up to an id below
-- which no transaction can still write: the highest id seen, once all transactions that ran then
-- are over. One node at a time does that, under the lock of outbox_cursor's only row.

-- Where an organization wants to hear of its events.
CREATE TABLE webhooks (
    org_id        text COLLATE "C" PRIMARY KEY,
    url           text NOT NULL,
    secret        text NOT NULL,            -- signs; never shown again
    kinds         text[],                   -- null: all
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    failing_since timestamptz,              -- null: its last answer was a good one
    error         text                      -- of the last failure
);

ALTER TABLE outbox ADD COLUMN told_as bigint;  -- a replay: the id under which it was told before
ALTER TABLE outbox ADD COLUMN channel text CHECK (channel IN ('webhook', 'mail')); -- a replay: for whom alone
-- take_deliveries reads what an event's next piece is.
CREATE INDEX outbox_event ON outbox (org_id, event_id, id);

CREATE TABLE outbox_cursor (
    routed_to    bigint NOT NULL,           -- up to here every row has found its deliveries
    pending_to   bigint NOT NULL,           -- the next place to get to,
    pending_xmax xid8 NOT NULL,             -- when all transactions before this one are over
    pending_at   timestamptz NOT NULL
);
INSERT INTO outbox_cursor
SELECT COALESCE(max(id), 0), COALESCE(max(id), 0), pg_snapshot_xmax(pg_current_snapshot()), clock_timestamp() FROM outbox;

-- What is to be told to whom, and how far that has come: rows of the outbox in (told_to, todo_to].
CREATE TABLE deliveries (
    org_id     text COLLATE "C" NOT NULL,
    channel    text COLLATE "C" NOT NULL CHECK (channel IN ('webhook', 'mail')),
    subject    text COLLATE "C" NOT NULL,   -- webhook: the event; mail: what it is about, told once
    event_id   text COLLATE "C" NOT NULL,
    told_to    bigint NOT NULL,
    todo_to    bigint NOT NULL,
    next_at    timestamptz NOT NULL,        -- when it is due; while it is leased, when the lease ends
    lease      bigint NOT NULL DEFAULT 0,   -- +1 whenever a node takes it; who has an older one has lost it
    leased     boolean NOT NULL DEFAULT false,
    attempts   integer NOT NULL DEFAULT 0,  -- that failed since one succeeded
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, channel, subject)
);
-- take_deliveries: which organizations wait for something, and what of theirs is due.
CREATE INDEX deliveries_due ON deliveries (channel, org_id, next_at) WHERE told_to < todo_to;
-- and how many of an organization's are under way.
CREATE INDEX deliveries_leased ON deliveries (channel, org_id) WHERE leased;
-- purge_told
CREATE INDEX deliveries_age ON deliveries (updated_at);

-- What nobody took for as long as it was tried.
CREATE TABLE dead_letters (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id     text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    channel    text NOT NULL CHECK (channel IN ('webhook', 'mail')),
    told_as    bigint NOT NULL,             -- the id that a consumer knows it by
    kind       text NOT NULL,
    email      text,
    payload    jsonb NOT NULL,
    attempts   integer NOT NULL,
    error      text NOT NULL,
    created_at timestamptz NOT NULL,        -- of the outbox's row
    died_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX dead_letters_org ON dead_letters (org_id, id);  -- list_dead_letters
CREATE INDEX dead_letters_age ON dead_letters (died_at);     -- purge_dead_letters

-- Times as all answers write them.
CREATE FUNCTION told_time(at timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- What a mail is about: of two rows about the same only the first becomes a mail. Null: no person is
-- told of this kind.
CREATE FUNCTION mail_subject(kind text, payload jsonb, id bigint, told_as bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN kind IN ('checkout.completed', 'hold.expired', 'payment.refund_required', 'waitlist.assigned')
        THEN kind || '/' || COALESCE(payload->>'checkout_id', payload->>'waitlist_id', payload->>'hold_id', id::text)
            || CASE WHEN told_as IS NULL THEN '' ELSE '/' || id END END
$$;

-- What became of seats and holds is told from the audit rows, for whoever made them: one look at
-- an empty table for those who have no webhook. A hold that ran out while somebody was at the
-- checkout is told to that person, too.
CREATE FUNCTION outbox_from_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM webhooks) THEN
        INSERT INTO outbox (org_id, event_id, kind, payload)
        SELECT k.org_id, k.event_id, k.kind, jsonb_strip_nulls(jsonb_build_object(
            'seat_id', k.seat_id, 'area_id', k.area_id, 'quantity', k.quantity, 'version', k.version,
            'hold_id', k.hold_id, 'user_id', k.user_id, 'reason', k.reason,
            'expires_at', CASE WHEN k.action = 'seat_held' THEN told_time(k.held_until) END,
            'at', told_time(k.at)))
        FROM (
            SELECT a.*, CASE a.action WHEN 'seat_held' THEN 'seat.held' WHEN 'seat_sold' THEN 'seat.sold'
                WHEN 'seat_released' THEN 'seat.released' END AS kind
            FROM fresh a
            WHERE a.action IN ('seat_held', 'seat_sold', 'seat_released')) k
        JOIN webhooks w ON w.org_id = k.org_id AND (w.kinds IS NULL OR k.kind = ANY (w.kinds))
        ORDER BY k.id;
    END IF;
    IF EXISTS (SELECT FROM fresh a WHERE a.action = 'seat_released' AND a.reason = 'ttl_expired') THEN
        INSERT INTO outbox (org_id, event_id, kind, email, payload)
        SELECT h.org_id, h.event_id, 'hold.expired', CASE WHEN l.checkout_id IS NOT NULL THEN l.customer_email END,
            jsonb_strip_nulls(jsonb_build_object('hold_id', h.hold_id, 'checkout_id', l.checkout_id,
                'user_id', h.user_id, 'seats', h.seats, 'areas', h.areas, 'reason', 'ttl_expired', 'at', told_time(h.at)))
        FROM (
            SELECT a.org_id, a.event_id, a.hold_id, a.user_id, max(a.at) AS at, min(a.id) AS first,
                COALESCE(jsonb_agg(a.seat_id ORDER BY a.id) FILTER (WHERE a.seat_id IS NOT NULL), '[]') AS seats,
                jsonb_agg(jsonb_build_object('area_id', a.area_id, 'quantity', a.quantity) ORDER BY a.id)
                    FILTER (WHERE a.area_id IS NOT NULL) AS areas
            FROM fresh a
            WHERE a.action = 'seat_released' AND a.reason = 'ttl_expired' AND a.hold_id IS NOT NULL
            GROUP BY 1, 2, 3, 4) h
        CROSS JOIN LATERAL (
            SELECT max(s.customer_email) AS customer_email, (array_agg(s.checkout_id) FILTER (WHERE s.checkout_id IS NOT NULL))[1] AS checkout_id
            FROM seat_holds s WHERE s.hold_id = h.hold_id AND s.org_id = h.org_id OFFSET 0) l
        LEFT JOIN webhooks w ON w.org_id = h.org_id AND (w.kinds IS NULL OR 'hold.expired' = ANY (w.kinds))
        WHERE w.org_id IS NOT NULL OR (l.checkout_id IS NOT NULL AND l.customer_email IS NOT NULL)
        ORDER BY h.first;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER outbox_from_audit AFTER INSERT ON audit_log
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION outbox_from_audit();
