-- remove_holds - removes what the warm tier has of holds that ended on seats of one event.
--
-- KEYS  1: the event's seat_holds, 2: its occupancy; then for each seat: its key, the meta key of its
--       hold (the seat's key again where the hold lives on with other seats)
-- ARGV  for each seat: its member of seat_holds, "<seat>:<hold>:<user>"
-- Returns how many seat keys were removed.
--
-- The event's counts are of before, so they go.
-- A seat's key goes only if it has this hold's id still: it may be the next owner's by now. Member
-- and meta are named after the hold, so they are nobody else's. Redis shares its cores with us, and
-- each argument costs half a microsecond: so the hold's id is cut out of the member.
local pcall, sub, match, keys, argv = redis.pcall, string.sub, string.match, KEYS, ARGV
local doomed, n, removed = { keys[2] }, 1, 0

for i = 1, #argv do
    local key = keys[2 * i + 1]
    local old = pcall('GET', key) -- of another type: not ours to remove
    if type(old) == 'string' and sub(old, 13, 48) == match(argv[i], ':([^:]*):') then
        n = n + 1
        doomed[n] = key
        removed = removed + 1
    end
    if keys[2 * i + 2] ~= key then
        n = n + 1
        doomed[n] = keys[2 * i + 2]
    end
end

redis.call('DEL', unpack(doomed))
pcall('ZREM', keys[1], unpack(argv))
return removed
