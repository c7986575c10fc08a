-- 0003 - nodes that left cleanly, and how many records they told.
--
-- Positions of the feed name them for ten minutes more; a node that starts after they left has
-- never heard them, and could only answer such a position with a reset.
CREATE TABLE departed_nodes (
    incarnation bigint PRIMARY KEY,
    records     bigint NOT NULL,
    left_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
