-- put_holds - writes what was committed about seats of one event: key, member and meta of each.
--
-- KEYS  1: the event's seat_holds; then for each seat: its key, the meta key of its hold
-- ARGV  1: event id; then for each seat, ten values:
--       value, milliseconds to live, seat, hold id, user, version, score,
--       held_until, created_at, source ('' when an earlier seat of the same hold wrote the meta)
-- Returns how many seats were written.
--
-- A key is replaced unless it has this hold's id and a newer version: whoever committed is right,
-- but an old message of the same hold is not. The value is text that warm_value (values.c) wrote:
-- hold_id and user_id come first, version last, and quotes inside of values are escaped.
local WIDTH = 10

-- A key of another type than ours is nobody's: it goes.
local function call(command, key, ...)
    local reply = redis.pcall(command, key, ...)
    if type(reply) == 'table' and reply.err then
        if string.find(reply.err, 'WRONGTYPE', 1, true) then
            redis.call('DEL', key)
        end
        reply = redis.call(command, key, ...)
    end
    return reply
end

local members, gone, longest, written = {}, {}, 0, 0

for i = 1, (#KEYS - 1) / 2 do
    local at = 1 + (i - 1) * WIDTH
    local seat, hold, version = ARGV[at + 3], ARGV[at + 4], tonumber(ARGV[at + 6])
    local newer = false

    local old = redis.pcall('GET', KEYS[2 * i]) -- a key of another type is replaced too
    if type(old) == 'string' then
        local old_hold, old_user = string.match(old, '^{"hold_id":"([^"]*)","user_id":"([^"]*)"')
        if old_hold == hold then
            newer = (tonumber(string.match(old, '"version":(%d+)}$')) or 0) > version
        elseif old_hold then
            gone[#gone + 1] = seat .. ':' .. old_hold .. ':' .. old_user
        end
    end

    if not newer then
        local ttl = ARGV[at + 2]
        redis.call('SET', KEYS[2 * i], ARGV[at + 1], 'PX', ttl)
        members[#members + 1] = ARGV[at + 7]
        members[#members + 1] = seat .. ':' .. hold .. ':' .. ARGV[at + 5]
        longest = math.max(longest, tonumber(ttl))
        written = written + 1
        if ARGV[at + 10] ~= '' then
            local meta = KEYS[2 * i + 1]
            call('HSET', meta, 'hold_id', hold, 'user_id', ARGV[at + 5], 'event_id', ARGV[1],
                'held_until', ARGV[at + 8], 'created_at', ARGV[at + 9], 'source', ARGV[at + 10],
                'status', 'active')
            redis.call('PEXPIRE', meta, ttl)
        end
    end
end

if #members > 0 then
    call('ZADD', KEYS[1], unpack(members))
    if redis.call('PTTL', KEYS[1]) < longest then -- no shorter than its longest member
        redis.call('PEXPIRE', KEYS[1], longest)
    end
end
if #gone > 0 then
    redis.call('ZREM', KEYS[1], unpack(gone))
end
return written
