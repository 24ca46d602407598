-- Look for tasks whose place in the Stream was lost, a step at a time; and when all were seen, count.
-- KEYS:    as in common.lua
-- ARGV:    base, claim-idle in ms (what is younger is left alone), HSCAN cursor ("0" from the start), how many to look
--          at, 1 when all records were just looked at by mend.lua: a difference means then that totals.pending is
--          wrong
-- Returns: {HSCAN cursor to go on with ("0": all were seen), tasks repaired}, and when all were seen behind these:
--          pending tasks that are in no container, records that are in none (of either: negative when there are too
--          many), entries in the group's list, overdue tasks
-- Cost: O(log N) a task that is older than claim-idle; the count one step for each queue. Idempotent.
--
-- A task in the Stream is fine while its entry waits to be read or is held by a consumer (recover.lua looks after those
-- that died). Neither is left when the Stream, the group, a consumer or the entry was deleted by hand.
local now = clock()
local claim_idle, cursor, limit = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local QUEUES_MAX, DUE_LANES_MAX, HELD_LANES_MAX = 2000, 64, 2000

local last_read_ms, last_read_number
local function was_read(ms, number)
    if not last_read_ms then
        for _, group in ipairs(redis.call('XINFO', 'GROUPS', READY_STREAM)) do
            if group[2] == GROUP then last_read_ms, last_read_number = string.match(group[8], '^(%d+)-(%d+)$') end
        end
        last_read_ms, last_read_number = tonumber(last_read_ms), tonumber(last_read_number)
    end
    return ms < last_read_ms or (ms == last_read_ms and number <= last_read_number)
end

local lost = {}
local function look(id, place)
    local entry, ms, number = string.match(place, '^((%d+)-(%d+)) ')
    if not entry or now - ms < claim_idle then return end
    if #redis.call('XPENDING', READY_STREAM, GROUP, entry, entry, 1) > 0 then return end
    local is_there = #redis.call('XRANGE', READY_STREAM, entry, entry) > 0
    if is_there and not was_read(tonumber(ms), tonumber(number)) then return end
    local h = read_head(base .. id)
    if is_there then redis.call('XDEL', READY_STREAM, entry) end
    if not h then
        forget(id, entry, false)
        return
    end
    lost[#lost + 1] = id
    if h.state == READY or h.state == DELIVERING then
        put_back(h, id, now)
        add(totals, 'orphans', 1)
    else -- another task by this id, made after the record was deleted
        add(out, string.match(place, ' (.+)$'), -1)
    end
end

-- A lane that is held by its queue's limits is looked at again when somebody resumes the queue or a slot comes free.
-- Both can come by a deletion by hand, too, which nobody tells.
local function release_held()
    for _, queue in ipairs(redis.call('ZRANGEBYSCORE', LANES, 'inf', 'inf', 'LIMIT', 0, HELD_LANES_MAX)) do
        local limits = limits_of(queue)
        local is_held = limits and (limits.paused or (limits.slots > 0 and number_in(OUT, queue) >= limits.slots))
        local head = not is_held and redis.pcall('ZRANGE', base .. ':q:' .. queue, 0, 0, 'WITHSCORES') or {}
        if head[2] then lane_due[queue] = tonumber(head[2]) end
    end
end

-- The index of lanes was deleted by hand, or a lane's entry in it. `which`: NX for the entries that are not there, LT
-- for those that are too late as well.
local function index_all(names, which)
    for _, queue in ipairs(names) do
        local head = redis.pcall('ZRANGE', base .. ':q:' .. queue, 0, 0, 'WITHSCORES')
        if head[2] then redis.call('ZADD', LANES, which, head[2], queue) end
    end
end

-- Lanes of no queue, which are in the index while there is something in the containers they stand for.
local function other_lanes()
    local there = 0
    for lane, container in pairs({[EXPIRY_LANE] = EXPIRY, [CALLBACKS_LANE] = CALLBACKS}) do
        local head = redis.call('ZRANGE', container, 0, 0, 'WITHSCORES')
        if head[2] then redis.call('ZADD', LANES, 'LT', head[2], lane) end
        if redis.call('ZSCORE', LANES, lane) then there = there + 1 end
    end
    return there
end

-- The names of all queues, and how many records they say they have. Lanes of queues that are not counted are found by
-- the index.
local function queue_names()
    local names, known, records = {}, {}, 0
    local counted = redis.call('HGETALL', QUEUES)
    for i = 1, #counted, 2 do
        names[#names + 1] = counted[i]
        known[counted[i]] = true
        records = records + (tonumber(counted[i + 1]) or 0)
    end
    for _, queue in ipairs(redis.call('ZRANGE', LANES, 0, -1)) do
        local is_queue = queue ~= EXPIRY_LANE and queue ~= CALLBACKS_LANE
        if is_queue and not known[queue] then names[#names + 1] = queue end
    end
    return names, records
end

-- How many tasks are in a lane. Something else in its place, put there by hand, goes.
local function tasks_in(lane)
    local n = redis.pcall('ZCARD', lane)
    if type(n) == 'number' then return n end
    redis.call('UNLINK', lane)
    return 0
end

-- Pending tasks and records in no container. Too many queues for one call: none, as far as is known, and some of the
-- queues each time are looked for in the index.
local function count_lost()
    if redis.call('HLEN', QUEUES) > QUEUES_MAX then
        index_all(redis.call('HRANDFIELD', QUEUES, QUEUES_MAX), 'NX')
        return 0, 0
    end
    local names, records = queue_names()
    local held, lanes = redis.call('HLEN', FLIGHT) - 1, 0
    local others = other_lanes()
    if held == 0 and redis.call('XLEN', READY_STREAM) == 0 then redis.call('UNLINK', OUT, BUSY) end
    for _, queue in ipairs(names) do
        local n = tasks_in(base .. ':q:' .. queue)
        held = held + n
        if n > 0 then lanes = lanes + 1 end
    end
    if lanes ~= redis.call('ZCARD', LANES) - others then index_all(names, 'LT') end
    local pending = number_in(TOTALS, 'pending') - held
    if pending ~= 0 and ARGV[5] == '1' then
        redis.call('HINCRBY', TOTALS, 'pending', -pending)
        pending = 0
    end
    for state = DELIVERED, EXPIRED do held = held + redis.call('ZCARD', FINISHED[state]) end
    return pending, records - held
end

local function count_overdue()
    local overdue = 0
    for _, queue in ipairs(redis.call('ZRANGEBYSCORE', LANES, '-inf', '(' .. now, 'LIMIT', 0, DUE_LANES_MAX)) do
        overdue = overdue + overdue_in(base .. ':q:' .. queue, now)
    end
    return overdue
end

local delivering = redis.call('XPENDING', READY_STREAM, GROUP)[1]
mark_flight()
local step = redis.call('HSCAN', FLIGHT, cursor, 'COUNT', limit)
for i = 1, #step[2], 2 do look(step[2][i], step[2][i + 1]) end
leave_flight(lost)
if step[1] == '0' then release_held() end
commit()
if step[1] ~= '0' then return {step[1], #lost} end
local pending, records = count_lost()
return {'0', #lost, pending, records, delivering, count_overdue()}
