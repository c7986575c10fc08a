-- Holds one place of an area, or one seat of many, with the same request: wrk ... -- TOKENS area|seat EVENTS SEATS_PER_EVENT SEED
-- Each hold is a cart of its own: the same user's same cart is the same hold of an area.
local heads, order, at

local function shuffled(count)
    local list = {}
    for i = 1, count do
        list[i] = i - 1
    end
    for i = count, 2, -1 do
        local j = math.random(i)
        list[i], list[j] = list[j], list[i]
    end
    return list
end

function init(arguments)
    local events, seats = tonumber(arguments[3]), tonumber(arguments[4])
    math.randomseed(tonumber(arguments[5]))
    heads = {}
    for token in io.lines(arguments[1]) do
        heads[#heads + 1] = "POST /api/holds HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer " .. token
            .. "\r\nContent-Type: application/json\r\nContent-Length: "
    end
    if arguments[2] == "seat" then
        order, per_event = shuffled(events * seats), seats
    end
    at = 0
end

local function what(n)
    if not order then
        return '"0","areas":[{"area_id":"floor","quantity":1}]'
    end
    local seat = order[n % #order + 1]
    local number = seat % per_event
    return '"' .. (seat - number) / per_event .. '","seat_ids":["' .. number .. '"]'
end

function request()
    at = at + 1
    local body = '{"cart_token":"' .. at .. '","event_id":' .. what(at) .. "}"
    return heads[at % #heads + 1] .. #body .. "\r\n\r\n" .. body
end
