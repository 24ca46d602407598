-- Cancel tasks: scheduled | ready -> cancelled; a task under way is marked and ends delivered or cancelled.
-- KEYS:    as in common.lua, then one record key a task
-- ARGV:    base, then one id a task
-- Returns: for each task {state found, record when it is under way else nil}; state -1 when there is no such task.
-- Cost: O(log N) a task. Idempotent.
--
-- The entry of a ready task leaves the Stream at once. A worker that has read it finds the generation changed.
local now = clock()

local function cancel(h, id)
    if h.state == SCHEDULED then leave_lane(h, id) else leave_stream(h, id) end
    h.state = CANCELLED
    h.generation = h.generation + 1
    write_head(h, now)
    finish(h, id, now)
end

local reply = {}
for i = FIRST + 1, #KEYS do
    local id = ARGV[i - FIRST + 1]
    local h = read_head(KEYS[i])
    if not h then
        reply[#reply + 1] = {-1, false}
    elseif h.state == DELIVERING then
        if not h.cancel then
            h.cancel = true
            redis.call('SETRANGE', h.key, 0, pack_head(h))
        end
        reply[#reply + 1] = {h.state, beginning_of(h.key)}
    else
        reply[#reply + 1] = {h.state, false}
        if h.state < DELIVERING then cancel(h, id) end
    end
end
commit()
return reply
