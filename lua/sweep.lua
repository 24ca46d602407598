-- Remove finished tasks whose retention has passed, and the oldest beyond the limit.
-- KEYS:    as in common.lua
-- ARGV:    base, retention in ms of delivered, dead, cancelled, expired, how many finished tasks may stay, how many to
--          remove at most in this call
-- Returns: {removed, ms until the next one is due for removal (-1: none)}
-- Cost: O(log N) a task removed. Idempotent.
--
-- A record in another state than its container says (deleted by hand, and the id used again) is a live task: it stays.
-- So does a task whose callback is still to be made, until it was.
local now = clock()
local RETENTION = {[DELIVERED] = ARGV[2], [DEAD] = ARGV[3], [CANCELLED] = ARGV[4], [EXPIRED] = ARGV[5]}
local limit = tonumber(ARGV[7])
local removed = 0

local function is_awaited(h, id)
    return h.kinds >= KIND_ON_SUCCESS and redis.call('ZSCORE', CALLBACKS, id)
end

local function remove(state, ids)
    local keys, gone = {}, {}
    for _, id in ipairs(ids) do
        local h = read_head(base .. id)
        local is_it = h and h.state == state
        if not (is_it and is_awaited(h, id)) then gone[#gone + 1] = id end
        if is_it and gone[#gone] == id then
            keys[#keys + 1] = h.key
            add(queues, h.queue, -1)
            if state == DEAD then redis.pcall('ZREM', base .. ':dead:' .. h.queue, id) end
        end
    end
    if #keys > 0 then redis.call('UNLINK', unpack(keys)) end
    if #gone > 0 then redis.call('ZREM', FINISHED[state], unpack(gone)) end
    removed = removed + #gone
end

local kept = 0
for state = DELIVERED, EXPIRED do
    if removed < limit then
        remove(state, redis.call('ZRANGEBYSCORE', FINISHED[state], '-inf', now - RETENTION[state], 'LIMIT', 0,
            limit - removed))
    end
    kept = kept + redis.call('ZCARD', FINISHED[state])
end

-- The oldest `count` of all finished tasks, as lists of ids by state.
local function oldest(count)
    local found, by_state = {}, {}
    for state = DELIVERED, EXPIRED do
        local ids = redis.call('ZRANGE', FINISHED[state], 0, count - 1, 'WITHSCORES')
        for i = 1, #ids, 2 do found[#found + 1] = {id = ids[i], at = tonumber(ids[i + 1]), state = state} end
        by_state[state] = {}
    end
    table.sort(found, function(a, b) return a.at < b.at or (a.at == b.at and is_before(a.id, b.id)) end)
    for i = 1, count do
        local ids = by_state[found[i].state]
        ids[#ids + 1] = found[i].id
    end
    return by_state
end

local over = math.min(kept - ARGV[6], limit - removed)
if over > 0 then
    local before = removed
    for state, ids in pairs(oldest(over)) do remove(state, ids) end
    add(totals, 'trimmed', removed - before)
    kept = kept - (removed - before)
end

local next_ms = -1
for state = DELIVERED, EXPIRED do
    local head = redis.call('ZRANGE', FINISHED[state], 0, 0, 'WITHSCORES')
    if head[2] then
        local due = math.max(0, head[2] + RETENTION[state] - now)
        if next_ms < 0 or due < next_ms then next_ms = due end
    end
end
if kept > tonumber(ARGV[6]) then next_ms = 0 end
commit()
return {removed, next_ms}
