-- mend_seat - after a SET replaced something it should not have, or left another hold's or owner's member
-- behind.
--
-- KEYS  1: the seat's key, 2: the event's seat_holds
-- ARGV  1: the value that was written, 2: milliseconds to live,
--       3: the text that it replaced, '' for a key of another type
-- Returns 1 if the older text was put back.
--
-- Values are text that warm_value (values.c) wrote: hold_id, user_id first, version last, and quotes
-- inside of them are escaped.
local value, ttl, old = ARGV[1], ARGV[2], ARGV[3]

local function parse(text)
    local hold, user = string.match(text, '^{"hold_id":"([^"]*)","user_id":"([^"]*)"')
    return hold, user, tonumber(string.match(text, '"version":(%d+)}$') or 0)
end

if old == '' then
    redis.call('SET', KEYS[1], value, 'PX', ttl)
    return 0
end

local hold, user, version = parse(value)
local old_hold, old_user, old_version = parse(old)
local seat = string.match(KEYS[1], '}:seat:(.*)$')
local function drop_member(of_hold, of_user)
    redis.pcall('ZREM', KEYS[2], seat .. ':' .. of_hold .. ':' .. of_user)
end

if old_hold == hold and old_version > version then
    if old_user ~= user then
        drop_member(hold, user)
    end
    if redis.call('GET', KEYS[1]) == value then
        redis.call('SET', KEYS[1], old, 'PX', ttl)
        return 1
    end
elseif old_hold and (old_hold ~= hold or old_user ~= user) then
    drop_member(old_hold, old_user)
end
return 0
