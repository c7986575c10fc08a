-- drop_seats - removes keys of seats that still read as they were found.
--
-- KEYS  keys of seats of one event
-- ARGV  for each: the text that was found, '' for an empty value or a key of another type
-- Returns how many were removed.
--
-- What was written since is not what was judged, so it stays. Texts are compared as far as they were
-- read: WARM_VALUE_MAX bytes, more than any value of ours has.
local pcall, keys, argv = redis.pcall, KEYS, ARGV
local removed = 0

for i = 1, #keys do
    local now = pcall('GETRANGE', keys[i], 0, 4095)
    if type(now) ~= 'string' then
        now = ''
    end
    if now == argv[i] then
        removed = removed + redis.call('DEL', keys[i])
    end
end
return removed
