-- Asks for the same seat again and again, each time as another user: wrk ... -- TOKENS PATH
local requests = {}
local at = 0

function init(arguments)
    local body = '{"cart_token":"bench"}'
    for token in io.lines(arguments[1]) do
        requests[#requests + 1] = "POST " .. arguments[2] .. " HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer "
            .. token .. "\r\nContent-Type: application/json\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
    end
end

function request()
    at = at % #requests + 1
    return requests[at]
end
