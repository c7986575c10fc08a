-- 0001 - events, seats, areas, holds, audit, and what the engine needs beside them.
--
-- Written for a hot path of one UPDATE, one INSERT and one audit row per seat. Every index
-- says which statement it serves; each costs about 5 % of all holds, one on seats 12 %.
-- Ids are opaque text in the "C" collation: compared as bytes, whatever the database's locale.
-- Everything hot carries (org_id, event_id), so that the tables can be partitioned by it.

CREATE TYPE seat_status AS ENUM ('available', 'held', 'sold', 'blocked', 'removed');
CREATE TYPE hold_status AS ENUM ('active', 'converted', 'expired', 'cancelled');
CREATE TYPE audit_action AS ENUM (
    'seat_held', 'hold_extended', 'hold_changed', 'hold_transferred', 'seat_released', 'seat_sold',
    'seat_blocked', 'seat_unblocked', 'seat_removed', 'seat_added', 'seat_changed',
    'area_changed', 'event_changed');

-- The policy stands in columns: statements judge by it, as committed when they began.
CREATE TABLE events (
    org_id             text COLLATE "C" NOT NULL,
    event_id           text COLLATE "C" NOT NULL,
    kind               text NOT NULL CHECK (kind IN ('event', 'show', 'flight')),
    name               text NOT NULL,
    status             text NOT NULL CHECK (status IN ('scheduled', 'on_sale', 'closed', 'cancelled')),
    currency           text NOT NULL DEFAULT 'USD',
    version            bigint NOT NULL DEFAULT 1,
    hold_ttl           integer NOT NULL CHECK (hold_ttl > 0),
    extend_by          integer NOT NULL CHECK (extend_by > 0),
    max_hold           integer NOT NULL CHECK (max_hold > 0),
    max_seats_per_hold integer NOT NULL CHECK (max_seats_per_hold > 0),
    max_seats_per_user integer NOT NULL DEFAULT 0 CHECK (max_seats_per_user >= 0),
    one_hold_per_user  boolean NOT NULL DEFAULT false,
    no_single_seat_gap boolean NOT NULL DEFAULT false,
    payment_timeout    integer NOT NULL DEFAULT 300 CHECK (payment_timeout > 0),
    rehold_cooldown    integer NOT NULL DEFAULT 0 CHECK (rehold_cooldown >= 0),
    waitlist_mode      text NOT NULL DEFAULT 'offer' CHECK (waitlist_mode IN ('offer', 'confirm')),
    waitlist_offer_ttl integer NOT NULL DEFAULT 300 CHECK (waitlist_offer_ttl > 0),
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, event_id)
);

-- `seats` decides. Owner and end of the hold stand in the seat's row, because only that row is
-- read anew after a lock. No index but the key: another one would end HOT updates.
CREATE TABLE seats (
    version    bigint NOT NULL DEFAULT 0,       -- the fencing token; +1 with every change
    held_until timestamptz,
    hold_id    uuid,
    price      bigint,
    x          real,
    y          real,
    status     seat_status NOT NULL DEFAULT 'available',
    in_payment boolean NOT NULL DEFAULT false,
    org_id     text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    seat_id    text COLLATE "C" NOT NULL,
    section    text NOT NULL,
    "row"      text NOT NULL,
    number     text NOT NULL,
    type       text,
    user_id    text COLLATE "C",
    attributes jsonb,
    PRIMARY KEY (org_id, event_id, seat_id),
    CHECK ((status IN ('held', 'sold')) = (hold_id IS NOT NULL)),
    CHECK ((status = 'held') = (held_until IS NOT NULL)),
    CHECK (status = 'held' OR NOT in_payment)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- General admission: a count instead of seats.
CREATE TABLE areas (
    org_id   text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    area_id  text COLLATE "C" NOT NULL,
    name     text NOT NULL,
    capacity integer NOT NULL CHECK (capacity >= 0),
    held     integer NOT NULL DEFAULT 0 CHECK (held >= 0),
    sold     integer NOT NULL DEFAULT 0 CHECK (sold >= 0),
    price    bigint,
    version  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, event_id, area_id),
    CHECK (held + sold <= capacity)
) WITH (fillfactor = 70);

-- One row ("line") per seat or area of a hold. Rows are kept: they are history.
CREATE TABLE seat_holds (
    hold_id        uuid NOT NULL,
    held_until     timestamptz NOT NULL,
    created_at     timestamptz NOT NULL,        -- of the hold, the same on each of its lines
    ended_at       timestamptz,
    price          bigint,                      -- as it was when the line was taken
    quantity       integer NOT NULL DEFAULT 1 CHECK (quantity > 0),
    status         hold_status NOT NULL DEFAULT 'active',
    line           smallint NOT NULL,           -- 1.. within the hold; a seat that comes back gets a new line
    in_payment     boolean NOT NULL DEFAULT false,
    org_id         text COLLATE "C" NOT NULL,
    event_id       text COLLATE "C" NOT NULL,
    seat_id        text COLLATE "C",            -- a seat, or
    area_id        text COLLATE "C",            -- an area
    user_id        text COLLATE "C" NOT NULL,
    cart_token     text NOT NULL,
    source         text NOT NULL,
    reason         text,                        -- why it ended
    notes          text,
    customer_email text,
    ticket_ids     uuid[],                      -- one for a seat, `quantity` for an area
    -- change_holds, read_holds and the close of a taken-over line find a hold's lines by it.
    PRIMARY KEY (hold_id, line, org_id, event_id),
    CHECK ((seat_id IS NULL) <> (area_id IS NULL))
) WITH (fillfactor = 85);

-- The backstop: two living holds on one seat cannot even be written.
CREATE UNIQUE INDEX seat_holds_backstop ON seat_holds (org_id, event_id, seat_id)
    WHERE status = 'active' AND seat_id IS NOT NULL;
-- reap_holds and the reclaim of areas find what is over by it.
CREATE INDEX seat_holds_due ON seat_holds (held_until) WHERE status = 'active';
-- list_holds, and the count behind max_seats_per_user and one_hold_per_user.
CREATE INDEX seat_holds_user ON seat_holds (org_id, event_id, user_id)
    WHERE status IN ('active', 'converted');

-- One row per seat (or area) and change, fed from what the change returned. Narrow: the JSON of
-- the API is built on reading.
CREATE TABLE audit_log (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL,            -- the clock reading that judged
    version    bigint,                          -- the version that the change made
    hold_id    uuid,
    held_until timestamptz,
    action     audit_action NOT NULL,
    quantity   integer,
    org_id     text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    seat_id    text COLLATE "C",
    area_id    text COLLATE "C",
    user_id    text COLLATE "C",                -- whose hold it is (after the change)
    actor      text COLLATE "C",                -- who did it; null: the system
    reason     text,
    request_id text,
    meta       jsonb
);

-- Law 7: every write transaction leaves its id, so that a lost outcome can be learned. UUIDv7, so
-- old ones are found by the key (purge_batches).
CREATE TABLE batches (
    batch_id uuid PRIMARY KEY
);

-- Answers kept for Idempotency-Key, written in the transaction of their request.
CREATE TABLE idempotency_keys (
    org_id       text COLLATE "C" NOT NULL,
    user_id      text COLLATE "C" NOT NULL,
    method       text COLLATE "C" NOT NULL,
    path         text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    digest       bytea NOT NULL,                -- SHA-256 of method, path and body
    status       integer NOT NULL,
    content_type text NOT NULL,
    body         text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, user_id, method, path, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at); -- purge_idempotency_keys

-- Who is alive. A node's row is its heartbeat.
CREATE SEQUENCE node_incarnations;
CREATE TABLE nodes (
    node_id      text COLLATE "C" PRIMARY KEY,
    incarnation  bigint NOT NULL,
    address      text NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- UUIDv7 (RFC 9562) for ids that a statement makes: tickets.
CREATE FUNCTION uuid_v7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT encode(
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                    PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6),
            52, 1), 53, 1), 'hex')::uuid
$$;

-- A statement that changed other rows than it promised must not commit.
CREATE FUNCTION must_equal(promised bigint, done bigint, what text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF promised IS DISTINCT FROM done THEN
        RAISE EXCEPTION 'holdfast: % promised, % done: %', promised, done, what;
    END IF;
    RETURN true;
END $$;

-- Greedy first-come sum: adds a quantity only if it still fits into what is free.
-- fit(quantity, free) OVER (PARTITION BY area ORDER BY arrival) - a request fits if the sum moved.
CREATE FUNCTION fit_step(state bigint, quantity bigint, free bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN state + quantity <= free THEN state + quantity ELSE state END
$$;
CREATE AGGREGATE fit(bigint, bigint) (SFUNC = fit_step, STYPE = bigint, INITCOND = '0');
