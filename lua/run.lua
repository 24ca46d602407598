-- Make tasks due now: scheduled | ready -> the same.
-- KEYS:    as in common.lua, then one record key a task
-- ARGV:    base, then for each task: id, 1 when this may have been done before and the answer was lost (else 0)
-- Returns: for each task {state found, its record as it is now, or nil when nothing was done}; state -1 when there is
--          no such task.
-- Cost: O(log N) a task, and the bytes of the records. Idempotent.
--
-- A task that was run a moment ago and is under way or over by the time of a repeat has got what was asked for.
local now = clock()

local function run(h, id)
    h.run_at = now
    write_head(h, now)
    if h.state == SCHEDULED then schedule(h.queue, id, now) end
end

local function went_on(h)
    return h.state == DELIVERING or h.state == DELIVERED or h.state == DEAD
end

local reply = {}
local arg = 2
for i = FIRST + 1, #KEYS do
    local h = read_head(KEYS[i])
    if not h then
        reply[#reply + 1] = {-1, false}
    else
        local found = h.state
        if found <= READY then run(h, ARGV[arg]) end
        local is_done = found <= READY or (ARGV[arg + 1] == '1' and went_on(h))
        reply[#reply + 1] = {found, is_done and beginning_of(h.key)}
    end
    arg = arg + 2
end
commit()
return reply
