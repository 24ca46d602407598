-- Count everything for GET /stats.
-- KEYS:    as in common.lua
-- ARGV:    base, how many queues to list at most
-- Returns: {now in ms, ms until the next task is due (-1: none), unread, delivering, age of the oldest delivering (-1),
--           totals as name, value, ..., what describe_queue() tells of each queue that is listed, {scheduled, overdue,
--           age of the oldest overdue (-1), dead} of all queues}
-- Cost: O(log N) a queue that is listed or due. Read-only.
--
-- Overdue is what could be released and was not.
local now = clock()
local DUE_LOOK = 1000
local NAMES_SORTED_MAX = 2000

local pending = redis.call('XPENDING', READY_STREAM, GROUP)
local delivering = pending[1]
local unread = redis.call('XLEN', READY_STREAM) - delivering
local oldest_of_all = -1
if pending[2] then oldest_of_all = age_of(pending[2], now) end

local oldest = oldest_delivering(now, redis.call('HLEN', BUSY))

-- Queues with records or settings by name; of very many some, since sorting them all would take too long.
local function queue_names(limit)
    local names, known = {}, {}
    local function put(name)
        if not known[name] and name ~= ':' then names[#names + 1] = name end
        known[name] = true
    end
    for _, key in ipairs({QUEUES, SETTINGS}) do
        if redis.call('HLEN', key) <= NAMES_SORTED_MAX then
            for _, name in ipairs(redis.call('HKEYS', key)) do put(name) end
        else
            local some = redis.call('HSCAN', key, '0', 'COUNT', limit)[2]
            for i = 1, #some, 2 do put(some[i]) end
        end
    end
    table.sort(names, is_before)
    return names
end

local names = queue_names(tonumber(ARGV[2]))
local listed = {}
for i = 1, math.min(#names, tonumber(ARGV[2])) do listed[i] = describe_queue(names[i], now, oldest) end

-- Over all queues, listed or not. A lane with something overdue is due in the index; when very many are, those beyond
-- the look count as one task each.
local function sums()
    local out_of_lanes, overdue, overdue_age = 0, 0, -1
    for _, n in ipairs(redis.call('HVALS', OUT)) do out_of_lanes = out_of_lanes + (tonumber(n) or 0) end
    for _, name in ipairs(redis.call('ZRANGEBYSCORE', LANES, '-inf', now, 'LIMIT', 0, DUE_LOOK)) do
        local n, age_ms = overdue_in(base .. ':q:' .. name, now)
        overdue, overdue_age = overdue + n, math.max(overdue_age, age_ms)
    end
    overdue = overdue + math.max(0, redis.call('ZCOUNT', LANES, '-inf', now) - DUE_LOOK)
    local unfinished = number_in(TOTALS, 'pending')
    return {unfinished - out_of_lanes, overdue, overdue_age, redis.call('ZCARD', FINISHED[DEAD])}
end

local head = redis.call('ZRANGE', LANES, 0, 0, 'WITHSCORES')
local next_ms = -1
if head[2] and head[2] ~= 'inf' then next_ms = math.max(0, math.ceil(head[2] - now)) end
return {now, next_ms, unread, delivering, oldest_of_all, redis.call('HGETALL', TOTALS), listed, sums()}
