-- Create tasks: (nothing) -> scheduled.
-- KEYS:    as in common.lua, then one record key a task
-- ARGV:    base, how many tasks may be pending (0: any number), then for each task: id, due ("+ms" from now, or Unix
--          ms), queue, digest of the request when the client chose the id, else empty; specification, which holds the
--          digest
-- Returns: now in ms, then for each task its due time in ms, or -1 when too many are pending, or the record that has
--          this id already (nothing is changed then).
-- Cost: O(log N) a task. Idempotent by id: the first write decides, so out of memory refuses the whole call.
--
-- The generation begins anywhere: when an id is used again after its record is gone, whoever comes late with an entry
-- of the earlier task is not taken for an owner of this one.
local now, now_us = clock()
local reply = {now}
local queues = {}
local room = math.huge
if ARGV[2] ~= '0' then room = ARGV[2] - (redis.call('HGET', TOTALS, 'pending') or 0) end
local arg = 3
for i = FIRST + 1, #KEYS do
    local id, due, queue = ARGV[arg], ARGV[arg + 1], ARGV[arg + 2]
    if string.byte(due) == 43 then due = now + string.sub(due, 2) else due = math.max(now, tonumber(due)) end
    local head = struct.pack(HEAD, FORMAT + SCHEDULED, 0, 0, now_us % 65536, due, now, 0)
    if room < 1 and redis.call('EXISTS', KEYS[i]) == 0 then
        reply[#reply + 1] = -1
    elseif redis.call('SET', KEYS[i], head .. ARGV[arg + 4], 'NX') then
        schedule(queue, id, due)
        add(queues, queue, 1)
        add(totals, 'created', 1)
        add(totals, 'pending', 1)
        room = room - 1
        reply[#reply + 1] = due
    else
        local record = redis.call('GET', KEYS[i])
        local digest = ARGV[arg + 3]
        if digest ~= '' and string.find(record, digest, 1, true) then add(totals, 'duplicates', 1) end
        reply[#reply + 1] = record
    end
    arg = arg + 5
end
schedule_done()
flush(QUEUES, queues)
flush_counters()
return reply
