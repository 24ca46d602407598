-- Give the dead tasks of a queue a new life, oldest first, a step at a time: dead -> scheduled, due now.
-- KEYS:    as in common.lua
-- ARGV:    base, queue, when the call began in ms ("0": it begins now), how many at most
-- Returns: {-1} when it begins and there is no such queue; else {when it began, tasks redriven in this step, 1 when
--          more may be left (else 0)}
-- Cost: O(log N) a task. Idempotent, but what was redriven by a call whose answer was lost is in the total alone.
--
-- Only those that died before the call began: one that dies again meanwhile is not driven in a circle. A passed expiry
-- is cut out of the record, which may be large: past COPY_BYTES a step ends.
local COPY_BYTES = 4194304
local queue, began, limit = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local dead = base .. ':dead:' .. queue
local now = clock()
if began == 0 then
    local is_there = redis.call('HEXISTS', QUEUES, queue) == 1 or redis.call('HEXISTS', SETTINGS, queue) == 1
    if not is_there then return {-1} end
    began = now
end

local redriven, seen, bytes = 0, 0, 0
local ids = redis.call('ZRANGEBYSCORE', dead, '-inf', digits(began), 'LIMIT', 0, limit)
for _, id in ipairs(ids) do
    if bytes >= COPY_BYTES then break end
    local h = read_head(base .. id)
    if h and h.state == DEAD and h.queue == queue then
        if is_expired(h, now) then bytes = bytes + redis.call('STRLEN', h.key) end
        revive(h, id, now)
        redriven = redriven + 1
    else
        redis.call('ZREM', dead, id)
    end
    seen = seen + 1
end
commit()
return {began, redriven, (seen == limit or seen < #ids) and 1 or 0}
