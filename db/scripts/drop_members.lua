-- drop_members - removes members of an event's seat_holds, or what stands there and is no sorted set.
--
-- KEYS  1: the event's seat_holds
-- ARGV  members; '' for the key itself if it is of another type
-- Returns how many were removed.
local removed = redis.pcall('ZREM', KEYS[1], unpack(ARGV))
if type(removed) == 'number' then
    return removed
end
for i = 1, #ARGV do
    if ARGV[i] == '' then
        return redis.call('DEL', KEYS[1])
    end
end
return 0
