-- 0009 - flights: check-ins, waitlists, and the seed's view of what happened to seats.
--
-- A flight is an event, a passenger a user: seats and holds are the tables that all events have.

-- Behind confirm and sale: what the user had confirmed at this event before is given back in the same transaction.
-- null: for flights; a node of the version before, which puts events beside us, doesn't write it.
ALTER TABLE events ADD COLUMN one_seat_per_user boolean;
-- Where somebody has bought more than once that was the rule, and stays it: nobody loses what they have.
UPDATE events e SET one_seat_per_user = false
WHERE e.kind = 'flight' AND EXISTS (
    SELECT 1 FROM seat_holds h
    WHERE h.org_id = e.org_id AND h.event_id = e.event_id AND h.status = 'converted'
    GROUP BY h.user_id HAVING count(DISTINCT h.hold_id) > 1);

ALTER TYPE audit_action ADD VALUE 'checkin_created';
ALTER TYPE audit_action ADD VALUE 'checkin_changed';    -- its name, by an agent or a list of passengers
ALTER TYPE audit_action ADD VALUE 'baggage_weighed';
ALTER TYPE audit_action ADD VALUE 'baggage_paid';
ALTER TYPE audit_action ADD VALUE 'baggage_not_paid';
ALTER TYPE audit_action ADD VALUE 'waitlist_joined';
ALTER TYPE audit_action ADD VALUE 'waitlist_left';
ALTER TYPE audit_action ADD VALUE 'waitlist_offered';
ALTER TYPE audit_action ADD VALUE 'waitlist_assigned';
ALTER TYPE audit_action ADD VALUE 'waitlist_lapsed';

-- One passenger's check-in for one flight. The state moves along:
--   IN_PROGRESS -> WAITING_FOR_PAYMENT (too heavy) -> COMPLETED (paid) or IN_PROGRESS (not paid)
--   IN_PROGRESS -> COMPLETED (light enough)
CREATE TABLE checkins (
    checkin_id        uuid NOT NULL,
    org_id            text COLLATE "C" NOT NULL,
    event_id          text COLLATE "C" NOT NULL,
    passenger_id      text COLLATE "C" NOT NULL,   -- the PNR; the user id of holds
    last_name         text NOT NULL,
    state             text NOT NULL DEFAULT 'IN_PROGRESS'
                      CHECK (state IN ('IN_PROGRESS', 'WAITING_FOR_PAYMENT', 'COMPLETED')),
    baggage_weight    numeric(6, 2) CHECK (baggage_weight >= 0),
    payment_intent_id uuid,                        -- the surcharge that decides, or decided; null: none was due
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (checkin_id, org_id),
    UNIQUE (org_id, event_id, passenger_id),
    CHECK (state <> 'WAITING_FOR_PAYMENT' OR payment_intent_id IS NOT NULL)
);
-- find_checkin: a passenger logs in with nothing but the PNR and a name.
CREATE INDEX checkins_pnr ON checkins (org_id, upper(passenger_id));

-- A name as it is compared: without case, surrounding blanks and ways to write the same letter.
CREATE FUNCTION name_key(name text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT lower(upper(btrim(normalize(name, NFKC), E' \t\n\r')))
$$;

-- A check-in as it is shown, with the seat that its passenger has for certain.
CREATE VIEW checkins_shown AS
SELECT c.*, i.status AS intent_status, s.seat_id AS current_seat
FROM checkins c
LEFT JOIN payment_intents i ON i.intent_id = c.payment_intent_id
LEFT JOIN LATERAL (
    SELECT s.seat_id FROM seat_holds h
    JOIN seats s ON s.org_id = h.org_id AND s.event_id = h.event_id AND s.seat_id = h.seat_id
        AND s.status = 'sold' AND s.hold_id = h.hold_id
    WHERE h.org_id = c.org_id AND h.event_id = c.event_id AND h.user_id = c.passenger_id
      AND h.status IN ('active', 'converted') AND h.status::text = 'converted'
    ORDER BY h.ended_at DESC LIMIT 1) s ON true;

-- Who waits for a seat of an event. First come, first served among those whom a free seat fits: `place`.
--   QUEUED -> ASSIGNED (mode confirm: the seat is theirs)
--   QUEUED -> OFFERED (mode offer: it is held for them) -> ASSIGNED (they confirmed) or LAPSED or LEFT (they gave it back)
--   QUEUED -> LEFT
CREATE TABLE waitlist (
    waitlist_id uuid NOT NULL,
    place       bigint GENERATED ALWAYS AS IDENTITY,
    org_id      text COLLATE "C" NOT NULL,
    event_id    text COLLATE "C" NOT NULL,
    user_id     text COLLATE "C" NOT NULL,
    seat_type   text NOT NULL DEFAULT '',          -- '': any
    section     text NOT NULL DEFAULT '',
    status      text NOT NULL DEFAULT 'QUEUED'
                CHECK (status IN ('QUEUED', 'OFFERED', 'ASSIGNED', 'LAPSED', 'LEFT')),
    hold_id     uuid,                              -- what it got
    seat_id     text COLLATE "C",
    email       text,
    passed_over timestamptz,                       -- until then others come first: it could not be served (a limit of its user)
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (waitlist_id, org_id),
    CHECK ((status IN ('OFFERED', 'ASSIGNED', 'LAPSED')) <= (hold_id IS NOT NULL))
);
-- Once per user and event; and which events anybody waits for.
CREATE UNIQUE INDEX waitlist_open ON waitlist (org_id, event_id, user_id) WHERE status IN ('QUEUED', 'OFFERED');
-- Positions, lists, and which events anybody waits for.
CREATE INDEX waitlist_queue ON waitlist (org_id, event_id, place) INCLUDE (status) WHERE status IN ('QUEUED', 'OFFERED');
-- pick_waiting: who is the first to wish just that.
CREATE INDEX waitlist_wishes ON waitlist (org_id, event_id, seat_type, section, place) WHERE status = 'QUEUED';
-- ended_offers
CREATE INDEX waitlist_offers ON waitlist (place) WHERE status = 'OFFERED';

-- How an offer stands, by the hold that was made for it: OFFERED, ASSIGNED (it was confirmed or paid), LEFT (its user gave
-- it back) or LAPSED. moment: what is over by then is over, whether or not it was cleaned up; null: only what is written.
CREATE FUNCTION offer_state(of_org text, of_hold uuid, moment timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN bool_or(h.status::text = 'converted' OR h.ticket_ids IS NOT NULL) THEN 'ASSIGNED'
        WHEN bool_or(h.status::text = 'active' AND (h.in_payment OR moment IS NULL OR h.held_until > moment)) THEN 'OFFERED'
        WHEN bool_and(h.status::text = 'cancelled') AND bool_or(h.reason IN ('user_cancelled', 'replaced')) THEN 'LEFT'
        ELSE 'LAPSED' END
    FROM seat_holds h WHERE h.hold_id = of_hold AND h.org_id = of_org
$$;

-- Why a hold that ran out gave its seats back.
CREATE FUNCTION ttl_reason(source text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN source = 'waitlist' THEN 'waitlist_lapsed' ELSE 'ttl_expired' END;

-- The seed's words for what happened to seats. action::text: the new values can't be used in the transaction that adds them.
CREATE VIEW seat_events AS
SELECT a.id AS event_id, a.org_id, a.event_id AS flight_id, a.seat_id,
    CASE a.action::text WHEN 'seat_held' THEN 'HELD' WHEN 'seat_sold' THEN 'CONFIRMED'
        WHEN 'waitlist_assigned' THEN 'WAITLIST_ASSIGNED'
        WHEN 'seat_released' THEN CASE WHEN a.reason IN ('ttl_expired', 'waitlist_lapsed') THEN 'EXPIRED' ELSE 'CANCELLED' END
        END AS event_type,
    COALESCE(a.actor, 'SYSTEM') AS actor, a.user_id AS passenger_id,
    jsonb_strip_nulls(jsonb_build_object('reason', a.reason, 'hold_id', a.hold_id, 'version', a.version,
        'request_id', a.request_id, 'notes', a.meta->'notes', 'waitlist_id', a.meta->'waitlist_id')) AS metadata,
    a.at AS created_at
FROM audit_log a
WHERE a.seat_id IS NOT NULL AND a.action::text IN ('seat_held', 'seat_sold', 'seat_released', 'waitlist_assigned');

-- What a mail is about (0006), and of whom waits, too.
CREATE OR REPLACE FUNCTION mail_subject(kind text, payload jsonb, id bigint, told_as bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN kind IN ('checkout.completed', 'hold.expired', 'payment.refund_required',
            'waitlist.assigned', 'waitlist.offered', 'waitlist.lapsed')
        THEN kind || '/' || COALESCE(payload->>'checkout_id', payload->>'waitlist_id', payload->>'hold_id', id::text)
            || CASE WHEN told_as IS NULL THEN '' ELSE '/' || id END END
$$;
