-- Remove finished tasks whose retention has passed, and the oldest beyond the limit.
-- KEYS:    as in common.lua
-- ARGV:    base, retention in ms of delivered, dead, cancelled, expired, how many finished tasks may stay, how many to
--          remove at most in this call
-- Returns: {removed, ms until the next one is due for removal (-1: none)}
-- Cost: O(log N) a task removed. Idempotent.
local now = clock()
local RETENTION = {[DELIVERED] = ARGV[2], [DEAD] = ARGV[3], [CANCELLED] = ARGV[4], [EXPIRED] = ARGV[5]}
local limit = tonumber(ARGV[7])
local removed, queues = 0, {}

local function remove(state, ids)
    local keys = {}
    for _, id in ipairs(ids) do
        local h = read_head(base .. id)
        if h then
            keys[#keys + 1] = h.key
            add(queues, h.queue, -1)
            if state == DEAD then redis.call('ZREM', base .. ':dead:' .. h.queue, id) end
        end
    end
    if #keys > 0 then redis.call('UNLINK', unpack(keys)) end
    if #ids > 0 then redis.call('ZREM', FINISHED[state], unpack(ids)) end
    removed = removed + #ids
end

local kept = 0
for state = DELIVERED, EXPIRED do
    if removed < limit then
        remove(state, redis.call('ZRANGEBYSCORE', FINISHED[state], '-inf', now - RETENTION[state], 'LIMIT', 0,
            limit - removed))
    end
    kept = kept + redis.call('ZCARD', FINISHED[state])
end

-- Over the limit: the oldest of the largest set go first.
local over = math.min(kept - ARGV[6], limit - removed)
if over > 0 then
    local largest = DELIVERED
    for state = DEAD, EXPIRED do
        if redis.call('ZCARD', FINISHED[state]) > redis.call('ZCARD', FINISHED[largest]) then largest = state end
    end
    remove(largest, redis.call('ZRANGE', FINISHED[largest], 0, over - 1))
    add(totals, 'trimmed', over)
end

local next_ms = -1
for state = DELIVERED, EXPIRED do
    local head = redis.call('ZRANGE', FINISHED[state], 0, 0, 'WITHSCORES')
    if head[2] then
        local due = math.max(0, head[2] + RETENTION[state] - now)
        if next_ms < 0 or due < next_ms then next_ms = due end
    end
end
flush_level(QUEUES, queues)
flush_counters()
return {removed, next_ms}
