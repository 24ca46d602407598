-- Create the tasks that tell how others have ended: (nothing) -> scheduled, due now.
-- KEYS:    as in common.lua, then one record key a new task
-- ARGV:    base, then for each: id of the task that ended, its mark, the new task's id, queue and specification (empty:
--          there is nothing to tell)
-- Returns: {tasks created, how many are still marked}
-- Cost: O(log N) a task. Idempotent: the mark goes with the creation, so whoever comes later, a repeat or another
--       gateway, finds nothing to do.
--
-- The mark says when the task ended: one that has lived again since, and ended again, is another end.
local now, now_us = clock()
local created = 0

local function create(key, id, queue, spec)
    local head = struct.pack(HEAD, FORMAT + SCHEDULED, 0, 0, now_us % 65536, now, now, 0)
    if not redis.call('SET', key, head .. spec, 'NX') then return false end
    schedule(queue, id, now)
    add(queues, queue, 1)
    add(totals, 'created', 1)
    add(totals, 'pending', 1)
    add(totals, 'callbacks', 1)
    created = created + 1
    return true
end

local arg = 2
for i = FIRST + 1, #KEYS do
    local ended, mark, spec = ARGV[arg], ARGV[arg + 1], ARGV[arg + 4]
    if redis.call('ZSCORE', CALLBACKS, ended) == mark then
        if spec == '' or create(KEYS[i], ARGV[arg + 2], ARGV[arg + 3], spec) then
            redis.call('ZREM', CALLBACKS, ended)
        end
    end
    arg = arg + 5
end
commit()
local head = redis.call('ZRANGE', CALLBACKS, 0, 0, 'WITHSCORES')
if head[2] then
    redis.call('ZADD', LANES, head[2], CALLBACKS_LANE)
else
    redis.call('ZREM', LANES, CALLBACKS_LANE)
end
return {created, redis.call('ZCARD', CALLBACKS)}
