-- Record how deliveries ended: delivering -> delivered | scheduled (retry, or given back) | dead | cancelled.
-- KEYS:    as in common.lua, then one record key a task
-- ARGV:    base, then for each task: id, entry id, generation, how (d delivered, r retry, x dead, b given back),
--          delay in ms before it is due again, bytes of the specification to keep (-1: all), encoded attempts
-- Returns: for each task {state reached, due time or 0}; state -1 when the task is no longer ours: nothing was changed.
-- Cost: O(log N) a task. Idempotent: the generation changes, so a repeat finds the task no longer ours and changes
--       nothing.
--
-- A task is ours while it is `delivering` with the generation we claimed: whoever takes it over changes that. `ready`
-- with that generation is ours too: Redis lost our claim (a failover, a crash before the log was on disk), and the
-- entry goes here, so nobody else would ever find the task. A cancel asked for meanwhile wins over everything but
-- success. XACK comes first: Redis allows it when it is out of memory, and what follows in the same script with it, so
-- that outcomes can always be written.
local now, now_us = clock()

-- A wait begins at the next whole ms, so that it is never a fraction too short.
local function after(delay)
    return delay > 0 and math.ceil(now_us / 1000) + delay or now
end
local NEXT = {d = DELIVERED, r = SCHEDULED, x = DEAD, b = SCHEDULED}

local entries = {}
for arg = 2, #ARGV, 7 do entries[#entries + 1] = ARGV[arg + 1] end
redis.call('XACK', READY_STREAM, GROUP, unpack(entries))
redis.call('XDEL', READY_STREAM, unpack(entries))

local function count_attempt(how)
    add(totals, 'attempts', 1)
    if how ~= 'd' then add(totals, 'failed_attempts', 1) end
end

local function settle(h, id, how, delay, keep, attempts)
    if h.state == DELIVERING then add(busy, h.queue, -1) end
    h.state = NEXT[how]
    if h.cancel and how ~= 'd' then h.state = CANCELLED end
    h.generation = h.generation + 1
    local when = h.state == SCHEDULED and after(delay) or now
    if how == 'b' then
        write_head(h, when)
    else
        h.attempts = h.attempts + 1
        h.takeovers = 0
        count_attempt(how)
        write_history(h, when, attempts, keep)
    end
    if h.state == SCHEDULED then
        schedule(h.queue, id, when)
        if how == 'r' then add(totals, 'retried', 1) end
    else
        finish(h, id, now)
    end
    add(out, h.queue, -1)
    return {h.state, h.state == SCHEDULED and when or 0}
end

local reply, settled = {}, {}
local arg = 2
for i = FIRST + 1, #KEYS do
    local h = read_head(KEYS[i])
    local is_out = h and (h.state == DELIVERING or h.state == READY)
    if is_out and h.generation == tonumber(ARGV[arg + 2]) then
        settled[#settled + 1] = ARGV[arg]
        reply[#reply + 1] = settle(h, ARGV[arg], ARGV[arg + 3], tonumber(ARGV[arg + 4]), tonumber(ARGV[arg + 5]),
            ARGV[arg + 6])
    else
        if not h then forget(ARGV[arg], ARGV[arg + 1], true) end
        reply[#reply + 1] = {-1, 0}
    end
    arg = arg + 7
end
leave_flight(settled)
schedule_done()
flush_counters()
return reply
