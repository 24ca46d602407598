-- Move what is due from the lanes to the Stream: scheduled -> ready.
-- KEYS:    as in common.lua
-- ARGV:    base, how many entries may wait unread in the Stream, how many to move at most in this call
-- Returns: {moved, us until the next task is due (-1: none; 0: more is due now), Redis TIME in us, entries unread}
-- Cost: O(log N) a task moved, plus one range for each due lane (64 at most).
--
-- Due lanes are served in turn: each gets its share of the room and at least one task, and a lane with a backlog is
-- then put behind those that were served longer ago. An id without record (deleted by hand, or something else
-- in its place) leaves its lane and is counted.
local now, now_us = clock()
local queues = {}
local flight = {'HSET', FLIGHT}

local unread = redis.call('XLEN', READY_STREAM)
unread = unread - redis.call('XPENDING', READY_STREAM, GROUP)[1]

-- Entry by entry into the Stream; returns how many went.
local function release(queue, ids)
    local moved = 0
    local at_queue = ' ' .. queue
    for _, id in ipairs(ids) do
        local key = base .. id
        local head = redis.pcall('GETRANGE', key, '0', HEAD_LAST)
        if type(head) == 'string' and #head == HEAD_BYTES then
            local _, _, _, generation = struct.unpack(HEAD, head)
            redis.call('SETRANGE', key, '0', string.char(FORMAT + READY))
            local entry = redis.call('XADD', READY_STREAM, '*', 'i', id, 'g', digits(generation))
            flight[#flight + 1] = id
            flight[#flight + 1] = entry .. at_queue
            moved = moved + 1
        else
            add(totals, 'orphans', 1)
            add(totals, 'pending', -1)
            add(queues, queue, -1)
        end
    end
    add(out, queue, moved)
    return moved
end

local function serve(queue, share)
    local lane = base .. ':q:' .. queue
    local ids = redis.call('ZRANGEBYSCORE', lane, '-inf', now, 'LIMIT', 0, share)
    local moved = release(queue, ids)
    if #ids > 0 then redis.call('ZREM', lane, unpack(ids)) end
    local head = redis.call('ZRANGE', lane, 0, 0, 'WITHSCORES')
    if head[2] then
        redis.call('ZADD', LANES, math.max(now, tonumber(head[2])), queue)
    else
        redis.call('ZREM', LANES, queue)
    end
    return moved
end

local room = math.min(tonumber(ARGV[3]), ARGV[2] - unread)
local moved = 0
if room > 0 then
    local lanes = redis.call('ZRANGEBYSCORE', LANES, '-inf', now, 'LIMIT', 0, 64)
    local share = math.max(1, math.floor(room / math.max(1, #lanes)))
    for _, queue in ipairs(lanes) do
        if moved < room then moved = moved + serve(queue, math.min(share, room - moved)) end
    end
    if moved > 0 then redis.call(unpack(flight)) end
    flush_level(QUEUES, queues)
    flush_counters()
end

local head = redis.call('ZRANGE', LANES, 0, 0, 'WITHSCORES')
local next_us = -1
if head[2] then next_us = math.max(0, head[2] * 1000 - now_us) end
return {moved, next_us, now_us, unread + moved}
