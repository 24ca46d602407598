-- List tasks of one state in their order, a step at a time: which they are. What they hold, glance.lua tells.
-- KEYS:    as in common.lua
-- ARGV:    base, state, queue ("": all), score and id of the task to go on behind (both "": from the start), how many
--          at most, where to go on among the queues ("0" from the first; for scheduled tasks of all queues)
-- Returns: {where to go on among the queues ("0": all were seen), 1 when there may be more behind the last one looked
--          at, score and id of that, then score and id of each task found}
-- Cost: O(log N) a queue of the step and a task found; at most LOOK tasks are looked at to find those of a queue.
--       Read-only.
--
-- Scheduled tasks are ordered by due time, finished ones by when they ended, and those in the Stream as they came
-- there, with the entry as their score. Over all queues each step merges some lanes, and the caller merges the steps.
local LOOK, QUEUES_A_STEP = 200, 100
local state, queue, limit = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[6])
local after, after_id = ARGV[4], ARGV[5]
local found = {}
local last, last_id = after, after_id

-- The rank in a ZSet of the first one behind `after`.
local function rank_behind(key)
    if after == '' then return 0 end
    local low, high = redis.call('ZCOUNT', key, '-inf', '(' .. after), redis.call('ZCOUNT', key, '-inf', after)
    while low < high do
        local middle = math.floor((low + high) / 2)
        if is_before(after_id, redis.call('ZRANGE', key, middle, middle)[1]) then
            high = middle
        else
            low = middle + 1
        end
    end
    return low
end

local function add_found(score, id)
    found[#found + 1] = score
    found[#found + 1] = id
end

-- Tasks of a ZSet, those of one queue when `must_match`. Returns whether there may be more.
local function list_container(key, must_match)
    local rank = rank_behind(key)
    local want = must_match and LOOK or limit
    local items = redis.call('ZRANGE', key, rank, rank + want - 1, 'WITHSCORES')
    for i = 1, #items, 2 do
        local h = must_match and read_head(base .. items[i])
        if not must_match or (h and h.queue == queue) then add_found(items[i + 1], items[i]) end
        last, last_id = items[i + 1], items[i]
        if #found >= 2 * limit then return true end
    end
    return #items >= 2 * want
end

local function list_stream()
    local entries = redis.call('XRANGE', READY_STREAM, after == '' and '-' or '(' .. after, '+', 'COUNT', LOOK)
    for _, entry in ipairs(entries) do
        local id = entry[2][2]
        local h = read_head(base .. id)
        local is_it = h and h.state == state and h.generation == tonumber(entry[2][4])
        if is_it and (queue == '' or h.queue == queue) then add_found(entry[1], id) end
        last, last_id = entry[1], ''
        if #found >= 2 * limit then return true end
    end
    return #entries >= LOOK
end

-- A lane and its next task.
local function advance(lane)
    local item = redis.call('ZRANGE', lane.key, lane.rank, lane.rank, 'WITHSCORES')
    lane.rank = lane.rank + 1
    lane.id, lane.score = item[1], tonumber(item[2])
    return lane
end

local function earliest_of(lanes)
    local best
    for i, lane in ipairs(lanes) do
        local other = lanes[best]
        local is_better = not other or lane.score < other.score
        if is_better or (lane.score == other.score and is_before(lane.id, other.id)) then best = i end
    end
    return best
end

-- The first tasks of some lanes together. Returns where to go on among the queues, and whether there may be more.
local function list_lanes()
    local step = redis.call('HSCAN', QUEUES, ARGV[7], 'COUNT', QUEUES_A_STEP)
    local lanes = {}
    for i = 1, #step[2], 2 do
        local key = base .. ':q:' .. step[2][i]
        local lane = advance({key = key, rank = rank_behind(key)})
        if lane.id then lanes[#lanes + 1] = lane end
    end
    while #lanes > 0 and #found < 2 * limit do
        local at = earliest_of(lanes)
        last, last_id = digits(lanes[at].score), lanes[at].id
        add_found(last, last_id)
        if not advance(lanes[at]).id then table.remove(lanes, at) end
    end
    return step[1], #lanes > 0
end

local next_queue, is_more = '0'
if state == SCHEDULED and queue == '' then
    next_queue, is_more = list_lanes()
elseif state == SCHEDULED then
    is_more = list_container(base .. ':q:' .. queue, false)
elseif state == READY or state == DELIVERING then
    is_more = list_stream()
elseif state == DEAD and queue ~= '' then
    is_more = list_container(base .. ':dead:' .. queue, false)
else
    is_more = list_container(FINISHED[state], queue ~= '')
end
local reply = {next_queue, is_more and 1 or 0, last, last_id}
for i = 1, #found do reply[#reply + 1] = found[i] end
return reply
