-- Record how deliveries ended: delivering -> delivered | scheduled (retry, or given back) | dead | cancelled | expired.
-- KEYS:    as in common.lua, then one record key a task
-- ARGV:    base, then for each task: id, entry id, generation, how (d delivered, r retry, x dead, b given back),
--          delay in ms before it is due again, bytes of the specification to keep (-1: all), encoded attempts
-- Returns: for each task the state reached, or when it is due again (a time in ms, greater than any state); -1 when the
--          task is no longer ours: nothing was changed.
-- Cost: O(log N) a task. Idempotent: the generation changes, so a repeat finds the task no longer ours and changes
--       nothing.
--
-- A task is ours while it is `delivering` with the generation we claimed: whoever takes it over changes that. `ready`
-- with that generation is ours too: Redis lost our claim (a failover, a crash before the log was on disk), and the
-- entry goes here, so nobody else would ever find the task. A cancel asked for meanwhile wins over everything but
-- success, and a task that has expired is not tried again. XACK comes first: Redis allows it when it is out of memory,
-- and what follows in the same script with it, so that outcomes can always be written.
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
    if h.state == SCHEDULED and is_expired(h, now) then h.state = EXPIRED end
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
        if h.expires_at then schedule_expiry(id, h.expires_at) end
        if how == 'r' then add(totals, 'retried', 1) end
    else
        finish(h, id, now)
    end
    add(out, h.queue, -1)
    return h.state == SCHEDULED and when or h.state
end

-- Nearly all tasks are delivered at the first attempt, and nothing else is to be done then. For these this does what
-- settle() would do, with half the work for the interpreter. Returns false for others, of which nothing was changed.
local HEAD_AND_WHEN = HEAD .. 'I6'
local finished_at = digits(now)
local delivered_of = {}
local function settle_plainly(key, id, text, generation, keep, attempts)
    if type(text) ~= 'string' or #text < HEAD_BYTES + 2 or #text >= GLANCE_BYTES then return false end
    local state, marks, tries, current, run_at, created_at, history = struct.unpack(HEAD, text)
    if state ~= FORMAT + DELIVERING or marks > 0 or history > 0 or current ~= generation then return false end
    local queue, queue_bytes = 'default', string.byte(text, HEAD_BYTES + 1)
    if queue_bytes > 0 then queue = string.sub(text, HEAD_BYTES + 2, HEAD_BYTES + 1 + queue_bytes) end
    if (string.byte(text, HEAD_BYTES + 2 + queue_bytes) or KIND_EXPIRES) >= KIND_EXPIRES then return false end
    local head = struct.pack(HEAD_AND_WHEN, FORMAT + DELIVERED, 0, tries + 1, (current + 1) % 65536, run_at, created_at,
        WHEN_BYTES + #attempts, now)
    redis.call('SET', key, head .. attempts .. string.sub(text, HEAD_BYTES + 1, keep < 0 and -1 or HEAD_BYTES + keep))
    add_finished(DELIVERED, finished_at, id)
    delivered_of[queue] = (delivered_of[queue] or 0) + 1
    return true
end

local reply, settled = {}, {}
local arg = 2
for i = FIRST + 1, #KEYS do
    local key, id, generation, how = KEYS[i], ARGV[arg], tonumber(ARGV[arg + 2]), ARGV[arg + 3]
    local keep, attempts = tonumber(ARGV[arg + 5]), ARGV[arg + 6]
    local text = glance(key)
    local reached
    if how == 'd' and settle_plainly(key, id, text, generation, keep, attempts) then
        reached = DELIVERED
    else
        local h = read_head(key, text)
        if h and (h.state == DELIVERING or h.state == READY) and h.generation == generation then
            reached = settle(h, id, how, tonumber(ARGV[arg + 4]), keep, attempts)
        elseif not h then
            forget(id, ARGV[arg + 1], true)
        end
    end
    if reached then settled[#settled + 1] = id end
    reply[#reply + 1] = reached or -1
    arg = arg + 7
end
for queue, n in pairs(delivered_of) do
    add(totals, 'attempts', n)
    add(busy, queue, -n)
    add(out, queue, -n)
end
leave_flight(settled)
commit()
return reply
