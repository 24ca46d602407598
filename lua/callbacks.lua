-- Look at tasks that have ended and whose callback is to be made.
-- KEYS:    as in common.lua
-- ARGV:    base, how many to look at at most, how many bytes of a record to return
-- Returns: {how many wait in all, then for each looked at: {id, its mark, the beginning of its record}}
-- Cost: O(log N) a task, and the bytes of the answer. Idempotent.
--
-- A task stays marked until announce.lua has created its callback. What has no record, or lives again, has none to
-- make.
local reply = {0}

local marked = redis.call('ZRANGE', CALLBACKS, 0, ARGV[2] - 1, 'WITHSCORES')
for i = 1, #marked, 2 do
    local id = marked[i]
    local h = read_head(base .. id)
    if h and h.state >= DELIVERED then
        reply[#reply + 1] = {id, marked[i + 1], redis.call('GETRANGE', h.key, 0, ARGV[3] - 1)}
    else
        redis.call('ZREM', CALLBACKS, id)
    end
end
reply[1] = redis.call('ZCARD', CALLBACKS)
if reply[1] == 0 then redis.call('ZREM', LANES, CALLBACKS_LANE) end
return reply
