-- Move what is due from the lanes to the Stream: scheduled -> ready.
-- KEYS:    as in common.lua
-- ARGV:    base, how many entries may wait unread in the Stream, how many to move at most in this call, how many may
--          wait when a lane is behind releases more
-- Returns: {moved, us until the next task is due (-1: none; 0: more is due now), Redis TIME in us, entries unread, 1
--          when tasks have expired (expire.lua) + 2 when callbacks are to be made (callbacks.lua), us until the next
--          lane is due that is not due yet (-1: none)}
-- Cost: O(log N) a task moved, plus one range for each due lane (64 at most).
--
-- Due lanes are served in turn: each gets its share of the room and at least one task, and a lane with a backlog is
-- then put behind those that were served longer ago. An id without record (deleted by hand, or something else
-- in its place) leaves its lane and is counted.
--
-- The Stream is first in, first out, so a lane that is behind may not fill it: while it works off its backlog a task of
-- another lane that becomes due would wait for all that lies in front of it. A lane is behind when its first task has
-- been due for BEHIND_MS.
--
-- The limits of a queue hold here, across all gateways. max_concurrency counts what is in the Stream, so a slot comes
-- free when a task leaves it, also by recovery from a dead worker. max_per_second is a token bucket of which is kept
-- when it will be full again (the generic cell rate algorithm, ITU-T I.371); it holds a tenth of a second's worth, at
-- least 1. A lane that may release nothing is not due before it may.
local GATHER_S = 0.005
local WORK_AGAIN_MS = 100
local BEHIND_MS = 20
local READY_BYTE = string.char(FORMAT + READY)
local now, now_us = clock()
local exact_now = string.format('%.3f', now_us / 1000)
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
            redis.call('SETRANGE', key, '0', READY_BYTE)
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

-- The token bucket of a queue as it is now.
local function bucket_of(queue, rate)
    local bucket = {us_each = 1000000 / rate, size = bucket_size(rate)}
    bucket.full_at = bucket_full_at(queue, rate, now_us)
    bucket.tokens = bucket.size - (bucket.full_at - now_us) / bucket.us_each
    return bucket
end

local function take_tokens(queue, bucket, n)
    bucket.full_at = bucket.full_at + n * bucket.us_each
    bucket.tokens = bucket.tokens - n
    redis.call('HSET', RATES, queue, string.format('%.0f', bucket.full_at))
end

-- When the next tokens are there, in ms: one, or for a fast queue a few at a time.
local function tokens_at(bucket, rate)
    local wanted = math.max(1, math.min(bucket.size / 2, rate * GATHER_S))
    return (now_us + math.max(0, wanted - bucket.tokens) * bucket.us_each) / 1000
end

-- Release up to `share` tasks of a lane within the queue's limits, and say in the index when to look at it again.
local function serve(queue, share)
    local lane = base .. ':q:' .. queue
    local limits = limits_of(queue)
    local slots, bucket = math.huge, nil
    if limits then
        if limits.slots > 0 then slots = limits.slots - number_in(OUT, queue) end
        if limits.paused then slots = 0 end
        if limits.rate > 0 then bucket = bucket_of(queue, limits.rate) end
        -- A bucket is never filled to the last bit: the clock is in whole us.
        share = math.min(share, slots, bucket and math.floor(bucket.tokens + 0.01) or share)
    end
    local moved = 0
    if share > 0 then
        local ids = redis.call('ZRANGEBYSCORE', lane, '-inf', digits(now), 'LIMIT', '0', digits(share))
        moved = release(queue, ids)
        -- They are the first of the lane, and so need not be sought one by one.
        if #ids > 0 then redis.call('ZREMRANGEBYRANK', lane, '0', digits(#ids - 1)) end
        if bucket and moved > 0 then take_tokens(queue, bucket, moved) end
    end
    local head = redis.call('ZRANGE', lane, '0', '0', 'WITHSCORES')
    if not head[2] then
        redis.call('ZREM', LANES, queue)
    elseif slots - moved <= 0 then
        redis.call('ZADD', LANES, 'inf', queue)
    elseif bucket and bucket.tokens < 0.99 then
        local at = math.max(tokens_at(bucket, limits.rate), tonumber(head[2]))
        redis.call('ZADD', LANES, string.format('%.3f', at), queue)
    else
        redis.call('ZADD', LANES, tonumber(head[2]) > now and head[2] or digits(now), queue)
    end
    return moved
end

-- What else is due: it is looked after by scripts of its own, and asked for again should nobody do so.
local WORK = {[EXPIRY_LANE] = 1, [CALLBACKS_LANE] = 2}
local work = 0
local lanes = {}
for _, lane in ipairs(redis.call('ZRANGEBYSCORE', LANES, '-inf', exact_now, 'LIMIT', '0', '64')) do
    if WORK[lane] then
        work = work + WORK[lane]
        redis.call('ZADD', LANES, digits(now + WORK_AGAIN_MS), lane)
    else
        lanes[#lanes + 1] = lane
    end
end

-- Those whose first task has waited for long go last, and leave most of the Stream to the others.
local function split()
    local on_time, behind = {}, {}
    for _, queue in ipairs(lanes) do
        local lane = base .. ':q:' .. queue
        local head = redis.pcall('ZRANGE', lane, '0', '0', 'WITHSCORES')
        if head[2] then
            local list = tonumber(head[2]) < now - BEHIND_MS and behind or on_time
            list[#list + 1] = queue
        else
            -- Nothing, or what somebody put there by hand.
            redis.call('UNLINK', lane)
            redis.call('ZREM', LANES, queue)
        end
    end
    return on_time, behind
end

local moved = 0
local function serve_all(queues_due, entries)
    local room = math.min(ARGV[3] - moved, entries - unread - moved)
    local share = math.max(1, math.floor(room / math.max(1, #queues_due)))
    local served = 0
    for _, queue in ipairs(queues_due) do
        if served < room then served = served + serve(queue, math.min(share, room - served)) end
    end
    moved = moved + served
end

local on_time, behind = split()
serve_all(on_time, tonumber(ARGV[2]))
-- One at least beside the others, however many of them there are.
local least = moved > 0 and math.min(ARGV[2], unread + moved + 1) or 0
serve_all(behind, math.max(ARGV[4], least))
if moved > 0 then redis.call(unpack(flight)) end
commit()

local function us_until(score)
    return score and score ~= 'inf' and math.max(0, math.ceil(score * 1000 - now_us)) or -1
end

local head = redis.call('ZRANGE', LANES, '0', '0', 'WITHSCORES')
local later = head
if head[2] and tonumber(head[2]) <= now_us / 1000 then
    later = redis.call('ZRANGEBYSCORE', LANES, '(' .. exact_now, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
end
return {moved, us_until(head[2]), now_us, unread + moved, work, us_until(later[2])}
