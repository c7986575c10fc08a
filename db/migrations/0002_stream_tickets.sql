-- 0002 - tickets for streams: a browser's EventSource can't send a token.
--
-- A ticket is good for one stream of one event, on any node, and for a minute. Only its hash is
-- kept. It carries what its token said.
CREATE TABLE stream_tickets (
    ticket_hash text COLLATE "C" PRIMARY KEY,
    org_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    role text NOT NULL,
    token_ends timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
