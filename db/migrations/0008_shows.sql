-- 0008 - shows: the rows of a house, where its best seats are, and how full it was.

-- read_rows finds the seats of a seating row by it. None of its columns ever changes while seats
-- are sold, so the updates of a sale stay HOT. Row and section come first: an index that began as the
-- primary key does would be taken for it while the statistics know little of the table, and then a
-- look-up by id reads all seats of the event.
CREATE INDEX seats_row ON seats ("row", section, event_id, org_id);

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
