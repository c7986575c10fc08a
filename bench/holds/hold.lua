-- Holds distinct free seats in random order: wrk ... -- TOKENS EVENTS SEATS_PER_EVENT SEED [PAUSE_MS [PART PARTS]]
-- Of several at once with the same seed each takes its part, from 0, of the seats.
-- All that can be made beforehand is: a request is three concatenations.
local paths, heads, order
local at, step

function init(arguments)
    local events, seats, seed = tonumber(arguments[2]), tonumber(arguments[3]), tonumber(arguments[4])
    local body = '{"cart_token":"bench"}'
    heads = {}
    for token in io.lines(arguments[1]) do
        heads[#heads + 1] = "/hold HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer " .. token
            .. "\r\nContent-Type: application/json\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
    end
    paths = {}
    for event = 0, events - 1 do
        paths[event] = "POST /api/events/" .. event .. "/seats/"
    end
    order = {}
    for i = 1, events * seats do
        order[i] = i - 1
    end
    math.randomseed(seed)
    for i = #order, 2, -1 do
        local j = math.random(i)
        order[i], order[j] = order[j], order[i]
    end
    per_event = seats
    step = tonumber(arguments[7] or 1)
    at = tonumber(arguments[6] or 0) + 1 - step
    local pause_ms = tonumber(arguments[5] or 0)
    if pause_ms > 0 then -- each connection waits that long between two requests
        delay = function() return pause_ms end
    end
end

function request()
    at = at + step
    local seat = order[at]
    if not seat then -- sold out: the run is void, and bench.py sees it by the count
        at = 1
        seat = order[at]
    end
    local number = seat % per_event
    return paths[(seat - number) / per_event] .. number .. heads[at % #heads + 1]
end
