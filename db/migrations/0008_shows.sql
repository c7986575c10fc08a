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

-- How full an event was, by the minute (occupancy_interval).
CREATE TABLE occupancy_snapshots (
    at        timestamptz NOT NULL,            -- the minute's beginning; counted a moment later
    available bigint NOT NULL,
    held      bigint NOT NULL,
    sold      bigint NOT NULL,
    blocked   bigint NOT NULL,
    org_id    text COLLATE "C" NOT NULL,
    event_id  text COLLATE "C" NOT NULL,
    PRIMARY KEY (org_id, event_id, at)          -- the history of one event
);
CREATE INDEX occupancy_snapshots_age ON occupancy_snapshots (at); -- purge_occupancy

-- How many seats and places of an event are in which state at `moment`; a hold that is over counts as
-- available, whether or not it was cleaned up. ends_at: time alone changes nothing before it (null:
-- nothing at all); areas_end_at: the same of quantities of areas, '-infinity' where some are over
-- already. Of these only the next half second is looked at (seat_holds_due), where any are held: a
-- hold that is made meanwhile lasts longer.
CREATE FUNCTION occupancy_at(of_org text, of_event text, moment timestamptz)
RETURNS TABLE (available bigint, held bigint, sold bigint, blocked bigint, ends_at timestamptz, areas_end_at timestamptz)
LANGUAGE sql STABLE AS $$
    WITH s AS (
        SELECT count(*) FILTER (WHERE e.status = 'held' AND (e.in_payment OR e.held_until > moment)) AS held,
            count(*) FILTER (WHERE e.status = 'sold') AS sold,
            count(*) FILTER (WHERE e.status = 'blocked') AS blocked,
            count(*) FILTER (WHERE e.status <> 'removed') AS total,
            min(e.held_until) FILTER (WHERE NOT e.in_payment AND e.held_until > moment) AS next_end
        FROM seats e WHERE e.org_id = of_org AND e.event_id = of_event),
    a AS (
        SELECT COALESCE(sum(r.held), 0)::bigint AS held, COALESCE(sum(r.sold), 0)::bigint AS sold,
            COALESCE(sum(r.capacity), 0)::bigint AS total
        FROM areas r WHERE r.org_id = of_org AND r.event_id = of_event),
    l AS (
        SELECT COALESCE(sum(h.quantity) FILTER (WHERE h.held_until <= moment), 0)::bigint AS units,
            min(h.held_until) FILTER (WHERE h.held_until > moment) AS next_end
        FROM (SELECT * FROM seat_holds d
              WHERE (SELECT a.held > 0 FROM a)
                AND d.status = 'active' AND d.held_until <= moment + interval '500 ms' OFFSET 0) h
        WHERE h.area_id IS NOT NULL AND NOT h.in_payment AND h.org_id = of_org AND h.event_id = of_event)
    SELECT s.total - s.held - s.sold - s.blocked + a.total - a.held - a.sold + l.units,
        s.held + a.held - l.units, s.sold + a.sold, s.blocked,
        LEAST(s.next_end, CASE WHEN a.held > 0 THEN COALESCE(l.next_end, moment + interval '500 ms') END),
        CASE WHEN a.held > 0 AND l.units > 0 THEN '-infinity'::timestamptz
            WHEN a.held > 0 THEN COALESCE(l.next_end, moment + interval '500 ms') END
    FROM s, a, l
$$;
