-- Read the beginning of records: all but long bodies.
-- KEYS:    as in common.lua, then one record key a task
-- ARGV:    base
-- Returns: for each task the first bytes of its record, nil when there is none
-- Cost: constant a task. Read-only.
--
-- Few records have so many headers that the second look is needed.
local SHORT_LAST = 12287
local reply = {}
for i = FIRST + 1, #KEYS do
    local text = redis.pcall('GETRANGE', KEYS[i], 0, SHORT_LAST)
    if type(text) ~= 'string' then text = '' end
    if #text > SHORT_LAST then text = redis.call('GETRANGE', KEYS[i], 0, BEGINNING_LAST) end
    reply[#reply + 1] = #text > 0 and text or false
end
return reply
