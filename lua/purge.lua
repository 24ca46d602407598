-- Drop what is scheduled and ready in a queue, a step at a time.
-- KEYS:    as in common.lua
-- ARGV:    base, queue, when the purge began in ms ("0": it begins now), where to go on ("" from the start), how many
--          tasks to look at
-- Returns: {-1} when it begins and there is no such queue; else {when it began, tasks dropped in this step, where to go
--          on ("": all were seen)}
-- Cost: O(log N) a task looked at. Idempotent, but what was dropped by a call whose answer was lost is in the total
--       alone.
--
-- Tasks created after the purge began stay, and so does what is under way. First comes the lane, then the Stream, where
-- some may have gone meanwhile, and then the lane again, where some may have come back to. The way through the lane
-- goes by the last task that was left there, since others come and go before and behind it.
--
-- Records may be large, and Redis does nothing else while their memory is given back: past FREE_BYTES a step ends.
local FREE_BYTES = 4194304
local queue, began, limit = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5])
local phase, at = string.match(ARGV[4], '^(%a)(.*)$')
local lane = base .. ':q:' .. queue
local now = clock()
if began == 0 then
    local is_there = redis.call('HEXISTS', QUEUES, queue) == 1 or redis.call('HEXISTS', SETTINGS, queue) == 1
    if not is_there then return {-1} end
    began = now
end
phase, at = phase or 'l', at or ''

local dropped, bytes = 0, 0
local keys = {}
local function drop(h, id)
    keys[#keys + 1] = h.key
    bytes = bytes + (h.whole and #h.whole or redis.call('STRLEN', h.key))
    if h.expires_at then leave_expiry(id) end
    dropped = dropped + 1
end

-- How far from its head the lane was seen: up to the last task that was left in it, where that still is.
local function seen_of_lane()
    local score, id = string.match(at, '^(%S+) (.+)$')
    if not id then return 0 end
    if redis.call('ZSCORE', lane, id) == score then return redis.call('ZRANK', lane, id) + 1 end
    return redis.call('ZCOUNT', lane, '-inf', '(' .. score)
end

-- Returns where to go on in the lane, nil when it was seen to its end. An id without record leaves it, as in move.lua.
local function purge_lane()
    local from = seen_of_lane()
    local page = redis.call('ZRANGE', lane, from, from + limit - 1, 'WITHSCORES')
    local leaving, seen = {}, 0
    for i = 1, #page, 2 do
        if bytes >= FREE_BYTES then break end
        local id = page[i]
        local h = read_head(base .. id)
        if h and (h.state ~= SCHEDULED or h.created_at > began) then
            at = page[i + 1] .. ' ' .. id
        else
            leaving[#leaving + 1] = id
            if h then drop(h, id) else add(totals, 'orphans', 1) end
        end
        seen = seen + 1
    end
    if #leaving > 0 then
        redis.call('ZREM', lane, unpack(leaving))
        if redis.call('EXISTS', lane) == 0 then redis.call('ZREM', LANES, queue) end
    end
    add(totals, 'pending', -#leaving)
    add(queues, queue, -#leaving)
    return seen == limit or seen < #page / 2
end

-- The same for the Stream, which holds the ready tasks of all queues.
local function purge_stream()
    local from = at == '' and '-' or '(' .. at
    local entries = redis.call('XRANGE', READY_STREAM, from, '+', 'COUNT', limit)
    local seen = 0
    for _, e in ipairs(entries) do
        if bytes >= FREE_BYTES then break end
        local id, generation = e[2][2], tonumber(e[2][4])
        local h = read_head(base .. id)
        local is_ready = h and h.state == READY and h.generation == generation
        if is_ready and h.queue == queue and h.created_at <= began then
            leave_stream(h, id)
            drop(h, id)
            add(totals, 'pending', -1)
            add(queues, queue, -1)
        end
        at = e[1]
        seen = seen + 1
    end
    return seen == limit or seen < #entries
end

local function is_ready_somewhere()
    return redis.call('HGET', OUT, queue) ~= redis.call('HGET', BUSY, queue)
end

local next_phase = phase
if phase == 's' then
    if not purge_stream() then next_phase, at = 'm', '' end
elseif not purge_lane() then
    next_phase, at = phase == 'l' and is_ready_somewhere() and 's' or '', ''
end
if #keys > 0 then redis.call('UNLINK', unpack(keys)) end
add(totals, 'purged', dropped)
commit()
return {began, dropped, next_phase .. at}
