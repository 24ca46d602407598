-- Give tasks that ended without success a new life: dead | expired | cancelled -> scheduled, due now.
-- KEYS:    as in common.lua, then one record key a task
-- ARGV:    base, then for each task: id, 1 when this may have been done before and the answer was lost (else 0)
-- Returns: for each task {state found, its record as it is now, or nil when nothing was done}; state -1 when there is
--          no such task.
-- Cost: O(log N) a task, and the bytes of the records. Idempotent.
--
-- A task that was redriven a moment ago is due, under way or delivered by the time of a repeat. Dead again already, it
-- gets yet another life: it is not known that it had one.
local now = clock()

local reply = {}
local arg = 2
for i = FIRST + 1, #KEYS do
    local h = read_head(KEYS[i])
    if not h then
        reply[#reply + 1] = {-1, false}
    else
        local found = h.state
        local can_live = found == DEAD or found == CANCELLED or found == EXPIRED
        if can_live then revive(h, ARGV[arg], now) end
        local is_done = can_live or (ARGV[arg + 1] == '1' and h.run_at <= now)
        reply[#reply + 1] = {found, is_done and beginning_of(h.key)}
    end
    arg = arg + 2
end
commit()
return reply
