-- Read or change one queue: its settings, its pause switch, its end.
-- KEYS:    as in common.lua
-- ARGV:    base, what to do (read, put, pause, resume, delete), queue, for put: its settings, as `settings` in
--          common.lua holds them
-- Returns: {0} when there is no such queue, {1} when it cannot be deleted because tasks are pending in it; else {2} or,
--          when this made it, {3}, with what describe_queue() tells of it behind that.
-- Cost: constant, and up to 256 steps to find its oldest delivery. Idempotent, but a repeat finds made what is there,
--       and deleted what is not.
--
-- A queue is there while it has records or settings. When nothing is left of the settings after `resume` they go, and
-- the queue vanishes with its last record as if it had never been paused; one without records stays, since it was made
-- by PUT.
--
-- A change of the limits holds at once: the lane is due again in the index, and the next move finds out by the new
-- limits what may go. The tokens that are in the bucket are taken over, so neither does a new rate wait for what an old
-- one owed, nor does putting it again and again fill the bucket.
local NOT_THERE, NOT_EMPTY, DONE, MADE = 0, 1, 2, 3
local NOTHING = '0 0 0 {}'
local action, queue = ARGV[2], ARGV[3]
local lane = base .. ':q:' .. queue
local now, now_us = clock()

local old = redis.call('HGET', SETTINGS, queue)
local old_limits = limits_of(queue)
local records = number_in(QUEUES, queue)

-- The defaults for new tasks, which gateways keep for themselves as long as no change is counted.
local function defaults_of(settings)
    return string.match(settings or NOTHING, '^%S+ %S+ %S+ (.*)$') or ''
end

local function take_over_rate(from, to)
    if to == 0 then
        redis.call('HDEL', RATES, queue)
    elseif from > 0 and from ~= to then
        local tokens = bucket_size(from) - (bucket_full_at(queue, from, now_us) - now_us) / 1000000 * from
        local lacks = math.max(0, bucket_size(to) - math.max(0, tokens))
        redis.call('HSET', RATES, queue, digits(now_us + lacks / to * 1000000))
    end
end

-- Let the next move look at the lane, or none as long as the queue is paused.
local function reconsider(is_paused)
    local head = redis.call('ZRANGE', lane, 0, 0, 'WITHSCORES')
    if not head[2] then return end
    if is_paused then
        redis.call('ZADD', LANES, 'inf', queue)
    else
        lane_due[queue] = tonumber(head[2])
    end
end

-- What is no count, or as high as Redis counts, begins anew: it only has to change.
local function count_change()
    if settings_count() == '0' then redis.call('HDEL', SETTINGS, ':') end
    if type(redis.pcall('HINCRBY', SETTINGS, ':', '1')) ~= 'number' then redis.call('HSET', SETTINGS, ':', '1') end
end

-- Write its settings (nil: none).
local function write(new)
    if new then redis.call('HSET', SETTINGS, queue, new) else redis.call('HDEL', SETTINGS, queue) end
    if defaults_of(new) ~= defaults_of(old) then count_change() end
    local limits = limits_of(queue)
    take_over_rate(old_limits and old_limits.rate or 0, limits and limits.rate or 0)
    reconsider(limits and limits.paused)
end

local function set_paused(digit)
    local new = digit .. string.sub(old or NOTHING, 2)
    if new == NOTHING and records > 0 then new = nil end
    if new ~= old then write(new) end
end

local function is_pending()
    return redis.call('EXISTS', lane) == 1 or redis.call('HEXISTS', OUT, queue) == 1
end

local function describe()
    local delivers = redis.call('HEXISTS', BUSY, queue)
    return unpack(describe_queue(queue, now, oldest_delivering(now, delivers, queue)))
end

local is_there = old or records > 0
if not is_there and action ~= 'put' then return {NOT_THERE} end
if action == 'delete' and is_pending() then return {NOT_EMPTY} end
if action == 'put' then
    if ARGV[4] ~= old then write(ARGV[4]) end
elseif action == 'pause' then
    set_paused('1')
elseif action == 'resume' then
    set_paused('0')
elseif action == 'delete' then
    if old then write(nil) end
end
commit()
return {is_there and DONE or MADE, describe()}
