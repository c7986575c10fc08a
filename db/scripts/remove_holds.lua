-- remove_holds - removes what the warm tier has of holds that ended on seats of one event.
--
-- KEYS  1: the event's seat_holds; then for each seat: its key, the meta key of its hold
-- ARGV  for each seat: hold id, member of seat_holds
-- Returns how many seat keys were removed.
--
-- A seat's key goes only if it has this hold's id still: it may be the next owner's by now. Member
-- and meta are named after the hold, so they are nobody else's.
local doomed, members, removed = {}, {}, 0

for i = 1, (#KEYS - 1) / 2 do
    local hold = ARGV[2 * i - 1]
    local old = redis.pcall('GET', KEYS[2 * i]) -- of another type: not ours to remove
    if type(old) == 'string' and string.match(old, '^{"hold_id":"([^"]*)"') == hold then
        doomed[#doomed + 1] = KEYS[2 * i]
        removed = removed + 1
    end
    doomed[#doomed + 1] = KEYS[2 * i + 1]
    members[i] = ARGV[2 * i]
end

redis.call('DEL', unpack(doomed))
redis.pcall('ZREM', KEYS[1], unpack(members)) -- a key of another type has none of them
return removed
