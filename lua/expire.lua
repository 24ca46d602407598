-- End tasks that have expired: scheduled | ready -> expired.
-- KEYS:    as in common.lua
-- ARGV:    base, how many to look at at most
-- Returns: {tasks ended, us until the next one expires (-1: none does; 0: more have expired)}
-- Cost: O(log N) a task, and the bytes of large ones. Idempotent.
--
-- The index leads to them, so it makes no difference whether their queue is paused, held by a limit or deep. A task
-- that is under way only leaves the index: whoever settles it or takes it back sees that it has expired. So does what
-- has ended already, and what has no record (deleted by hand).
--
-- A record that gets its first history is written anew. Bodies may be large, and while they are copied Redis does
-- nothing else, so past COPY_BYTES the others wait for the next call.
local COPY_BYTES = 1048576
local now, now_us = clock()
local ended, copied = 0, 0

local function expire(h, id)
    if h.state == SCHEDULED then leave_lane(h, id) else leave_stream(h, id) end
    h.state = EXPIRED
    h.generation = h.generation + 1
    write_head(h, now)
    finish(h, id, now)
    ended = ended + 1
end

local function look(id)
    local h = read_head(base .. id)
    if not h or h.state >= DELIVERING then
        leave_expiry(id)
    elseif is_expired(h, now) then
        copied = copied + (h.whole and #h.whole or redis.call('STRLEN', h.key))
        expire(h, id)
    else
        leave_expiry(id)
        if h.expires_at then schedule_expiry(id, h.expires_at) end
    end
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', EXPIRY, '-inf', now, 'LIMIT', 0, ARGV[2])) do
    if copied < COPY_BYTES then look(id) end
end
commit()

local head = redis.call('ZRANGE', EXPIRY, 0, 0, 'WITHSCORES')
if not head[2] then
    redis.call('ZREM', LANES, EXPIRY_LANE)
    return {ended, -1}
end
redis.call('ZADD', LANES, head[2], EXPIRY_LANE)
return {ended, math.max(0, head[2] * 1000 - now_us)}
