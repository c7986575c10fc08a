-- 0008 - shows: the rows of a house, where its best seats are, and how full it was.

-- A seating row: all seats of one event with the same section and row. lock_rows locks it by this key,
-- read_rows finds its seats by it.
CREATE FUNCTION seating_row_key(org text, event text, section text, "row" text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN hashtextextended((org || '/' || event || '/' || section || '/' || "row") COLLATE "C", 0);

-- Not by the columns: as long as a table has no statistics, whatever looks a seat up by its primary
-- key would go through the whole event by such an index. None of what it is made of ever changes
-- while seats are sold, so the updates of a sale stay HOT.
CREATE INDEX seats_row ON seats (seating_row_key(org_id, event_id, section, "row"));

-- The point that the best seats are nearest to, in the coordinates of the seats. Null: the middle of
-- the front.
ALTER TABLE events ADD COLUMN focal_x real;
ALTER TABLE events ADD COLUMN focal_y real;
ALTER TABLE events ADD CHECK ((focal_x IS NULL) = (focal_y IS NULL));

-- How full an event was, by the minute.
CREATE TABLE occupancy_snapshots (
    at        timestamptz NOT NULL,             -- the minute's beginning
    available integer NOT NULL,
    held      integer NOT NULL,
    sold      integer NOT NULL,
    blocked   integer NOT NULL,
    org_id    text COLLATE "C" NOT NULL,
    event_id  text COLLATE "C" NOT NULL,
    PRIMARY KEY (org_id, event_id, at)          -- the history of one event
);
CREATE INDEX occupancy_snapshots_age ON occupancy_snapshots (at); -- purge_occupancy
