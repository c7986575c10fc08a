-- 0004 - checkouts, payment intents, and what payment providers told us.
--
-- A checkout is a sale that a user has begun: some of their holds, and at most one payment at a
-- time. The intent is that payment; its status only moves along the arrows:
--
--   processing -> pending      the provider was asked and has not decided
--   processing, pending -> succeeded | failed | expired (nobody said "paid" in time) | refund_required
--   processing -> void         the provider couldn't be asked: as if it had never been
--   failed, expired -> succeeded | refund_required   (a late success)
--   void -> refund_required      (it was asked after all, and took the money)

ALTER TYPE audit_action ADD VALUE 'payment_started';   -- the seats are in payment
ALTER TYPE audit_action ADD VALUE 'payment_stopped';   -- and are not any more, though nothing was decided
ALTER TYPE audit_action ADD VALUE 'checkout_started';
ALTER TYPE audit_action ADD VALUE 'checkout_completed';
ALTER TYPE audit_action ADD VALUE 'checkout_cancelled';
ALTER TYPE audit_action ADD VALUE 'checkout_failed';
ALTER TYPE audit_action ADD VALUE 'refund_required';

CREATE TABLE checkouts (
    checkout_id uuid NOT NULL,
    org_id      text COLLATE "C" NOT NULL,
    event_id    text COLLATE "C" NOT NULL,
    user_id     text COLLATE "C" NOT NULL,
    status      text NOT NULL CHECK (status IN ('open', 'paying', 'completed', 'cancelled', 'failed')),
    hold_ids    uuid[] NOT NULL,
    amount      bigint NOT NULL,        -- of all its lines, in the currency's minor unit, as it was begun
    currency    text NOT NULL,
    intent_id   uuid,                   -- its latest payment: the one that decides, or decided
    reason      text,                   -- why it ended, of the words for releases
    notes       text,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (checkout_id, org_id)
);

-- Holds know their checkout: the newest that was begun with them.
ALTER TABLE seat_holds ADD COLUMN checkout_id uuid;

CREATE TABLE payment_intents (
    intent_id    uuid PRIMARY KEY,
    org_id       text COLLATE "C" NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    user_id      text COLLATE "C" NOT NULL,
    purpose      text NOT NULL CHECK (purpose IN ('checkout', 'baggage')),
    subject_id   uuid NOT NULL,         -- the checkout (or check-in)
    amount       bigint NOT NULL,
    currency     text NOT NULL,
    provider     text NOT NULL,
    method       text NOT NULL,         -- what the client gave to pay with, for the provider
    status       text NOT NULL CHECK (status IN
                     ('processing', 'pending', 'succeeded', 'failed', 'expired', 'refund_required', 'void')),
    created_at   timestamptz NOT NULL,
    deadline_at  timestamptz NOT NULL,  -- created_at + payment_timeout: then the provider is asked
    give_up_at   timestamptz NOT NULL,  -- and if it can't be reached until then, the holds are over
    ask_at       timestamptz,           -- when to ask next; null: settled
    asked        integer NOT NULL DEFAULT 0,
    settled_at   timestamptz
);
-- take_due_intents
CREATE INDEX payment_intents_due ON payment_intents (ask_at) WHERE ask_at IS NOT NULL;

-- Every delivery of a provider's webhook, by the provider's own key for it and what it said (one key may
-- be the payment's): what repeats changes nothing.
CREATE TABLE payment_deliveries (
    intent_id    uuid NOT NULL,
    provider_key text COLLATE "C" NOT NULL,
    status       text NOT NULL,         -- what it said: succeeded | failed
    state        text NOT NULL CHECK (state IN ('done', 'retry', 'dead')),
    attempts     integer NOT NULL DEFAULT 0,
    next_at      timestamptz,           -- of state retry
    error        text,
    received_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (intent_id, provider_key, status)
);
CREATE INDEX payment_deliveries_due ON payment_deliveries (next_at) WHERE state = 'retry';
CREATE INDEX payment_deliveries_dead ON payment_deliveries (received_at) WHERE state = 'dead';
-- purge_payment_deliveries
CREATE INDEX payment_deliveries_old ON payment_deliveries (received_at);

-- Domain events, written in the transaction that they speak of; delivery is another migration's.
CREATE TABLE outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    org_id     text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    kind       text NOT NULL,           -- seat.held, checkout.completed, ...
    email      text,                    -- who is to be told by mail; null: nobody
    payload    jsonb NOT NULL
);
