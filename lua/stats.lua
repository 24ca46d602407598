-- Count everything for GET /stats.
-- KEYS:    as in common.lua
-- ARGV:    base, how many queues to list at most
-- Returns: {now in ms, ms until the next task is due (-1: none), unread, delivering, age of the oldest delivering (-1),
--           totals as name, value, ..., one {queue, scheduled, overdue, age of the oldest overdue (-1), ready,
--           delivering, age of its oldest delivering (-1), dead} for each queue that is listed,
--           {scheduled, overdue, age of the oldest overdue (-1), dead} of all queues}
-- Cost: O(log N) a queue. Read-only.
local now = clock()
local OLDEST_LOOK = 256

local function age(entry)
    return math.max(0, now - string.match(entry, '^%d+'))
end

-- The oldest entry of each queue that delivers: entries come oldest first, and the look ends when each queue has one.
local function oldest_delivering(queues_busy)
    local oldest, missing = {}, queues_busy
    if missing == 0 then return oldest end
    for _, p in ipairs(redis.call('XPENDING', READY_STREAM, GROUP, '-', '+', OLDEST_LOOK)) do
        local entry = redis.call('XRANGE', READY_STREAM, p[1], p[1])[1]
        local h = entry and read_head(base .. entry[2][2])
        if h and not oldest[h.queue] then
            oldest[h.queue] = age(p[1])
            missing = missing - 1
            if missing == 0 then break end
        end
    end
    return oldest
end

local pending = redis.call('XPENDING', READY_STREAM, GROUP)
local delivering = pending[1]
local unread = redis.call('XLEN', READY_STREAM) - delivering
local oldest_of_all = -1
if pending[2] then oldest_of_all = age(pending[2]) end

local oldest = oldest_delivering(redis.call('HLEN', BUSY))
local names = redis.call('HKEYS', QUEUES)
table.sort(names)
local queues = {}
for i = 1, math.min(#names, tonumber(ARGV[2])) do
    local name = names[i]
    local lane = base .. ':q:' .. name
    local overdue = redis.call('ZCOUNT', lane, '-inf', '(' .. now)
    local overdue_age = -1
    if overdue > 0 then overdue_age = now - redis.call('ZRANGE', lane, 0, 0, 'WITHSCORES')[2] end
    local released = tonumber(redis.call('HGET', OUT, name) or 0)
    local delivers = tonumber(redis.call('HGET', BUSY, name) or 0)
    queues[#queues + 1] = {name, redis.call('ZCARD', lane), overdue, overdue_age, released - delivers, delivers,
        oldest[name] or -1, redis.call('ZCARD', base .. ':dead:' .. name)}
end

-- Over all queues, listed or not. A lane with something overdue is due in the index.
local function sums()
    local out_of_lanes, overdue, overdue_age = 0, 0, -1
    for _, n in ipairs(redis.call('HVALS', OUT)) do out_of_lanes = out_of_lanes + n end
    for _, name in ipairs(redis.call('ZRANGEBYSCORE', LANES, '-inf', now)) do
        local lane = base .. ':q:' .. name
        local due = redis.call('ZRANGE', lane, 0, 0, 'WITHSCORES')[2]
        if due and tonumber(due) < now then
            overdue = overdue + redis.call('ZCOUNT', lane, '-inf', '(' .. now)
            overdue_age = math.max(overdue_age, now - due)
        end
    end
    local unfinished = tonumber(redis.call('HGET', TOTALS, 'pending') or 0)
    return {unfinished - out_of_lanes, overdue, overdue_age, redis.call('ZCARD', FINISHED[DEAD])}
end

local head = redis.call('ZRANGE', LANES, 0, 0, 'WITHSCORES')
local next_ms = -1
if head[2] then next_ms = math.max(0, head[2] - now) end
return {now, next_ms, unread, delivering, oldest_of_all, redis.call('HGETALL', TOTALS), queues, sums()}
