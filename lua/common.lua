-- Shared by every script: the build puts in front of each of them what it needs of this file, since Redis scripts
-- cannot load one another. It takes the file apart at blank lines (bundle.awk), so there is none within a function.
--
-- One partition of Duepost is these keys, all in one hash slot by the tag in `base` (for instance "duepost{0}"):
--
--   <base>ID           record of task ID (an id begins with a letter or digit, so it never meets a ":name")
--   <base>:lanes       ZSet  queue -> when its lane can release next: its earliest due time, when it was last served,
--                      when its rate lets the next one out, or "inf" while the queue is paused or has no free slot;
--                      and two lanes of no queue: ":expiry" -> when the next task expires, ":callbacks" -> when to
--                      look after them
--   <base>:q:QUEUE     ZSet  id -> due time in ms: the lane, the container of `scheduled`
--   <base>:ready       Stream of {i = id, g = generation}: `ready` until read, `delivering` while in the group's PEL
--   <base>:totals      Hash  counters of /stats, and `pending`: tasks that are not finished
--   <base>:out         Hash  queue -> tasks in the Stream, ready or delivering
--   <base>:busy        Hash  queue -> tasks delivering
--   <base>:queues      Hash  queue -> records it has, finished ones included
--   <base>:delivered, :dead, :cancelled, :expired    ZSet  id -> finished_at: the containers of the finished states
--   <base>:dead:QUEUE  ZSet  id -> finished_at: the dead of one queue
--   <base>:settings    Hash  queue -> "PAUSED SLOTS RATE JSON": 0 or 1, max_concurrency and max_per_second (0: none),
--                      and its defaults for new tasks; and the field ":", which counts changes
--   <base>:rates       Hash  queue -> when its token bucket will be full again, in us
--   <base>:expiry      ZSet  id -> expires_at: scheduled and ready tasks that expire, and some delivering ones
--   <base>:callbacks   ZSet  id -> finished_at: tasks that have ended and whose callback is to be made
--   <base>:k:DIGEST    digest of a request and the id of the task it made, for 24 h: an Idempotency-Key, by its digest
--   <base>:workers     Hash  gateway -> "claim_idle_ms heartbeat_ms"
--   <base>:flight      Hash  id -> "ENTRY QUEUE": where each task in the Stream is, ready or delivering; and the field
--                      ":", which is no task
--
-- A record is one string, small because there may be millions: a head of fixed size that scripts rewrite in place, the
-- history of attempts (empty before the first, else the time `when` in 6 bytes and what src/store/record_priv.h
-- encodes), and the specification of the task, which begins with the length and name of its queue (0: "default"), its
-- kinds and, when it expires, the time in 6 bytes, and ends with the body.
--
-- The generation changes whenever a task goes back to its lane or ends, so an entry of the Stream or a worker that
-- comes late is recognised and changes nothing.

-- The containers whose names are known beforehand come as KEYS in this order; record keys follow from KEYS[FIRST + 1].
local LANES, READY_STREAM, TOTALS, OUT, BUSY, QUEUES = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local FINISHED = {[3] = KEYS[7], [4] = KEYS[8], [5] = KEYS[9], [6] = KEYS[10]}
local WORKERS, FLIGHT, SETTINGS, RATES, EXPIRY, CALLBACKS = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16]
local FIRST = 16
local base = ARGV[1]

local GROUP = 'workers'
local SCHEDULED, READY, DELIVERING, DELIVERED, DEAD, CANCELLED, EXPIRED = 0, 1, 2, 3, 4, 5, 6
local STATE_COUNTER = {[DELIVERED] = 'delivered', [DEAD] = 'dead', [CANCELLED] = 'cancelled', [EXPIRED] = 'expired'}

-- Head: format and state, cancel mark and takeovers, attempts, generation, run_at, created_at, bytes of history.
local HEAD, HEAD_BYTES, HEAD_LAST, FORMAT = '>BBHHI6I6H', 20, '19', 16
local CANCEL_MARK = 128
local WHEN, WHEN_BYTES = '>I6', 6
-- Bits of the specification's kinds.
local KIND_EXPIRES, KIND_ON_SUCCESS, KIND_ON_FAILURE = 32, 64, 128
-- Lanes of no queue, for what the mover has to do besides.
local EXPIRY_LANE, CALLBACKS_LANE = ':expiry', ':callbacks'

-- Redis TIME, the only clock: in ms and in us.
local function clock()
    local t = redis.call('TIME')
    local us = t[1] * 1000000 + t[2]
    return math.floor(us / 1000), us
end

-- A whole number as text. Redis writes a number that redis.call gets by "%.17g", which costs more than many a command;
-- so the calls that are made for each task, or each time a script is called, get texts.
local function digits(n)
    return string.format('%d', n)
end

-- Counters are gathered in tables and written once a call.
local function add(counters, name, n)
    counters[name] = (counters[name] or 0) + n
end

-- Something else in the place of the hash or of the number, put there by hand, goes: tasks were changed already, and an
-- error would leave them half done. Returns the new number.
local function increase(key, name, n)
    local result = redis.pcall('HINCRBY', key, name, digits(n))
    if type(result) == 'number' then return result end
    if redis.call('TYPE', key).ok == 'hash' then redis.call('HDEL', key, name) else redis.call('UNLINK', key) end
    return redis.call('HINCRBY', key, name, digits(n))
end

local function flush(key, counters)
    for name, n in pairs(counters) do
        if n ~= 0 then increase(key, name, n) end
    end
end

-- A number in a hash; 0 when there is none, or when somebody put something else there by hand.
local function number_in(key, field)
    local n = tonumber(redis.pcall('HGET', key, field))
    return n and n == n and n or 0
end

-- As flush, for hashes whose fields go when they reach zero.
local function flush_level(key, counters)
    for name, n in pairs(counters) do
        if n ~= 0 and increase(key, name, n) <= 0 then redis.call('HDEL', key, name) end
    end
end

-- How a record begins; most are short, and then it is all of one. What somebody put there by hand gives no text.
local GLANCE_BYTES, GLANCE_LAST = 512, '511'
local function glance(key)
    return redis.pcall('GETRANGE', key, '0', GLANCE_LAST)
end

-- The head of a record as a table, its queue included; nil when there is no such record, or something that is none:
-- one that was broken by hand must not fail the call for all others in it. Of a short record `whole` is all of it, as
-- read, and saves reading it again. `text` is the record's glance, if that was taken already.
--
-- The table is the same each time, and good until the next head is read: one for each task is much to clean up.
local last_read = {}
local function read_head(key, text)
    text = text or glance(key)
    if type(text) ~= 'string' or #text < HEAD_BYTES then return nil end
    local whole = #text < GLANCE_BYTES and text or nil
    local state, marks, attempts, generation, run_at, created_at, history = struct.unpack(HEAD, text)
    state = state - FORMAT
    local at = HEAD_BYTES + history
    if not whole and #text < at + 72 then text = redis.call('GETRANGE', key, 0, at + 71) end
    local queue_bytes = string.byte(text, at + 1)
    if not queue_bytes or state < SCHEDULED or state > EXPIRED then return nil end
    if history > 0 and history < WHEN_BYTES then return nil end
    local queue = queue_bytes > 0 and string.sub(text, at + 2, at + 1 + queue_bytes) or 'default'
    at = at + 1 + queue_bytes
    local kinds, expires_at = string.byte(text, at + 1) or 0, nil
    if kinds % 64 >= KIND_EXPIRES and #text >= at + 7 then expires_at = struct.unpack(WHEN, text, at + 2) end
    local h = last_read
    h.key, h.whole, h.state, h.queue, h.kinds, h.expires_at = key, whole, state, queue, kinds, expires_at
    h.cancel, h.takeovers, h.attempts, h.generation = marks >= CANCEL_MARK, marks % CANCEL_MARK, attempts, generation
    h.run_at, h.created_at, h.history = run_at, created_at, history
    return h
end

-- As Redis orders members, whatever the server's locale says.
local function is_before(a, b)
    for i = 1, math.min(#a, #b) do
        local x, y = string.byte(a, i), string.byte(b, i)
        if x ~= y then return x < y end
    end
    return #a < #b
end

-- When a task is due again, or was: `when` of its history, else its first due time.
local function due_of(h)
    if h.history == 0 then return h.run_at end
    local text = h.whole or redis.call('GETRANGE', h.key, 0, HEAD_BYTES + WHEN_BYTES - 1)
    return (struct.unpack(WHEN, text, HEAD_BYTES + 1))
end

-- The attempts of a task, as the gateway encoded them.
local function history_of(h)
    if h.history <= WHEN_BYTES then return '' end
    return redis.call('GETRANGE', h.key, HEAD_BYTES + WHEN_BYTES, HEAD_BYTES + h.history - 1)
end

local function pack_head(h)
    return struct.pack(HEAD, FORMAT + h.state, (h.cancel and CANCEL_MARK or 0) + h.takeovers, h.attempts,
        h.generation % 65536, h.run_at, h.created_at, h.history)
end

-- What an answer shows of a task: all but a long body (RECORD_BEGINNING_BYTES in src/store/record_priv.h). False when
-- there is none, or something of another type.
local BEGINNING_LAST = 49151
local function beginning_of(key)
    local text = redis.pcall('GETRANGE', key, '0', digits(BEGINNING_LAST))
    return type(text) == 'string' and #text > 0 and text
end

-- Write a changed head, and `when` (finished_at, or the due time of a next attempt) into its history. A task without
-- history that is not finished needs no `when`: its next attempt is due at run_at.
local function write_head(h, when)
    if h.history > 0 then
        redis.call('SETRANGE', h.key, '0', pack_head(h) .. struct.pack(WHEN, when))
    elseif h.state >= DELIVERED then
        local spec = redis.call('GETRANGE', h.key, HEAD_BYTES, -1)
        h.history = WHEN_BYTES
        redis.call('SET', h.key, pack_head(h) .. struct.pack(WHEN, when) .. spec)
    else
        redis.call('SETRANGE', h.key, '0', pack_head(h))
    end
end

-- Replace the history by `when` and `attempts` (encoded by the gateway), keeping `keep` bytes of the specification
-- (-1: all of it).
local function write_history(h, when, attempts, keep)
    local from = HEAD_BYTES + h.history
    local to = keep < 0 and -1 or from + keep - 1
    local spec
    if not h.whole then
        spec = redis.call('GETRANGE', h.key, from, to)
    else
        spec = string.sub(h.whole, from + 1, keep < 0 and -1 or to + 1)
    end
    h.history = WHEN_BYTES + #attempts
    redis.call('SET', h.key, pack_head(h) .. struct.pack(WHEN, when) .. attempts .. spec)
end

-- A specification as the gateway sends it, and when its task expires (nil: never). Expiring some time from now is
-- marked by the highest bit and becomes a time here.
local FROM_NOW = 2 ^ 47
local function settle_expiry(spec, now)
    local kinds_at = string.byte(spec, 1) + 2
    if string.byte(spec, kinds_at) % 64 < KIND_EXPIRES then return spec, nil end
    local expires_at = struct.unpack(WHEN, spec, kinds_at + 1)
    if expires_at < FROM_NOW then return spec, expires_at end
    expires_at = now + expires_at - FROM_NOW
    local rest = string.sub(spec, kinds_at + WHEN_BYTES + 1)
    return string.sub(spec, 1, kinds_at) .. struct.pack(WHEN, expires_at) .. rest, expires_at
end

-- What a call changes is gathered and written by commit(), which every script that changes something calls once, last.
local totals, out, busy, queues = {}, {}, {}, {}
local lane_due = {}
local finished = {} -- finished state -> finished_at and id of each task

-- The size of a ZSet that belongs to a queue; 0 when something else was put there by hand.
local function size_of(key)
    local n = redis.pcall('ZCARD', key)
    return type(n) == 'number' and n or 0
end

-- Into a ZSet, scores and members in turn. Something else by its name, put there by hand, goes: it would fail the call
-- for the tasks of all queues, and leave those half done that were changed already.
local function put_in_zset(key, ...)
    local result = redis.pcall('ZADD', key, ...)
    if type(result) == 'number' then return end
    if redis.call('TYPE', key).ok ~= 'zset' then redis.call('UNLINK', key) end
    redis.call('ZADD', key, ...)
end

-- Put a task into its lane.
local function schedule(queue, id, due)
    put_in_zset(base .. ':q:' .. queue, digits(due), id)
    if not lane_due[queue] or due < lane_due[queue] then lane_due[queue] = due end
end

-- A task that expires, from now on or at another time.
local function schedule_expiry(id, expires_at)
    put_in_zset(EXPIRY, digits(expires_at), id)
    if not lane_due[EXPIRY_LANE] or expires_at < lane_due[EXPIRY_LANE] then lane_due[EXPIRY_LANE] = expires_at end
end

-- A task that has no time to expire at any more.
local function leave_expiry(id)
    redis.call('ZREM', EXPIRY, id)
    if redis.call('EXISTS', EXPIRY) == 0 then redis.call('ZREM', LANES, EXPIRY_LANE) end
end

-- The settings of a queue that hold its tasks back; nil when it has none, or none that can be read.
local RATE_MIN, RATE_MAX = 0.001, 1000000
local function limits_of(queue)
    local text = redis.pcall('HGET', SETTINGS, queue)
    if type(text) ~= 'string' then return nil end
    local paused, slots, rate = string.match(text, '^([01]) (%d+) (%S+) ')
    rate = tonumber(rate)
    if not rate or not (rate == 0 or (rate >= RATE_MIN and rate <= RATE_MAX)) then return nil end
    return {paused = paused == '1', slots = tonumber(slots), rate = rate}
end

-- How often the defaults of queues have changed, as text: what rests on them holds as long as this stays the same.
local function settings_count()
    local count = redis.pcall('HGET', SETTINGS, ':')
    return type(count) == 'string' and #count <= 20 and string.match(count, '^%d+$') or '0'
end

-- How many tokens the bucket of a queue with this rate (tasks per second) holds.
local BUCKET_S = 0.1
local function bucket_size(rate)
    return math.max(1, rate * BUCKET_S)
end

-- When the bucket of a queue will be full again, in us: not later than an empty one would, even if the clock was set
-- back meanwhile.
local function bucket_full_at(queue, rate, now_us)
    local latest = now_us + (bucket_size(rate) + 1) * 1000000 / rate
    return math.max(now_us, math.min(number_in(RATES, queue), latest))
end

-- Let a lane that was held for want of slots release again, unless the queue is paused.
local function unhold(queue, changed)
    if redis.call('ZSCORE', LANES, queue) ~= 'inf' then return end
    local limits = limits_of(queue)
    local head = redis.pcall('ZRANGE', base .. ':q:' .. queue, '0', '0', 'WITHSCORES')
    if head[2] and not (limits and limits.paused) then changed[queue] = tonumber(head[2]) end
end

-- Bring the index of lanes up to date, and wake the movers when something is due earlier than all before. A task that
-- is not the first of its lane changes nothing: so a lane that waits for its limits is left to wait; a paused one is in
-- any case.
local function index_lanes()
    local changed, earliest = {}, nil
    for queue, n in pairs(out) do
        if n < 0 then unhold(queue, changed) end
    end
    for queue, due in pairs(lane_due) do
        local head = redis.call('ZRANGE', base .. ':q:' .. queue, '0', '0', 'WITHSCORES')
        if not head[2] or tonumber(head[2]) >= due then changed[queue] = due end
    end
    for queue, due in pairs(changed) do
        local limits = limits_of(queue)
        if limits and limits.paused then
            redis.call('ZADD', LANES, 'inf', queue)
            changed[queue] = nil
        elseif not earliest or due < earliest then
            earliest = due
        end
    end
    if not earliest then return end
    local head = redis.call('ZRANGE', LANES, '0', '0', 'WITHSCORES')
    for queue, due in pairs(changed) do redis.call('ZADD', LANES, 'LT', digits(due), queue) end
    if not head[2] or earliest < tonumber(head[2]) then
        redis.call('PUBLISH', base .. ':wake', string.format('%.0f', earliest))
    end
end

-- Into the containers of the finished states, with few calls; one can take some thousand arguments.
local function flush_finished()
    for state, members in pairs(finished) do
        add(totals, STATE_COUNTER[state], #members / 2)
        add(totals, 'pending', -#members / 2)
        for i = 1, #members, 1000 do
            put_in_zset(FINISHED[state], unpack(members, i, math.min(i + 999, #members)))
        end
    end
end

local function commit()
    flush_finished()
    flush(TOTALS, totals)
    flush_level(OUT, out)
    flush_level(BUSY, busy)
    flush_level(QUEUES, queues)
    index_lanes()
end

local function is_expired(h, now)
    return h.expires_at and h.expires_at <= now
end

-- Whether this end of a task is one that its callbacks are about.
local function calls_back(h)
    if h.state == DELIVERED then return h.kinds % 128 >= KIND_ON_SUCCESS end
    return h.state ~= CANCELLED and h.kinds >= KIND_ON_FAILURE
end

local function add_finished(state, finished_at, id)
    local members = finished[state] or {}
    finished[state] = members
    members[#members + 1] = finished_at
    members[#members + 1] = id
end

-- Move a task into the container of a finished state. The record's head is written by the caller.
local function finish(h, id, now)
    local finished_at = digits(now)
    add_finished(h.state, finished_at, id)
    if h.state == DEAD then put_in_zset(base .. ':dead:' .. h.queue, finished_at, id) end
    if h.expires_at then leave_expiry(id) end
    if calls_back(h) then
        put_in_zset(CALLBACKS, finished_at, id)
        lane_due[CALLBACKS_LANE] = now
    end
end

-- Take the time of expiry out of a specification. What is read of the record hereafter is read anew.
local function drop_expiry(h)
    local record = redis.call('GET', h.key)
    local kinds_at = HEAD_BYTES + h.history + string.byte(record, HEAD_BYTES + h.history + 1) + 2
    h.kinds = h.kinds - KIND_EXPIRES
    h.expires_at, h.whole = nil, nil
    redis.call('SET', h.key, string.sub(record, 1, kinds_at - 1) .. string.char(h.kinds) ..
        string.sub(record, kinds_at + WHEN_BYTES + 1))
end

-- Give a task that ended without success a new life: due now and with fresh attempts. Its history stays, and an expiry
-- that is still to come.
local function revive(h, id, now)
    redis.call('ZREM', FINISHED[h.state], id)
    if h.state == DEAD then redis.call('ZREM', base .. ':dead:' .. h.queue, id) end
    redis.call('ZREM', CALLBACKS, id)
    if is_expired(h, now) then
        drop_expiry(h)
    elseif h.expires_at then
        schedule_expiry(id, h.expires_at)
    end
    h.state, h.cancel, h.attempts, h.takeovers = SCHEDULED, false, 0, 0
    h.generation = h.generation + 1
    h.run_at = now
    write_head(h, now)
    schedule(h.queue, id, now)
    add(totals, 'redriven', 1)
    add(totals, 'pending', 1)
end

-- The field ":" of the flight is no task. It is too long for the compact form of small hashes, which is searched from
-- its start, so that HSET and HDEL stay fast; and it keeps the hash when it would be empty.
local function mark_flight()
    redis.pcall('HSETNX', FLIGHT, ':', string.rep('.', 128))
end

-- Several tasks left the Stream.
local function leave_flight(ids)
    if #ids > 0 then redis.call('HDEL', FLIGHT, unpack(ids)) end
end

-- Take a scheduled task out of its lane.
local function leave_lane(h, id)
    local lane = base .. ':q:' .. h.queue
    redis.pcall('ZREM', lane, id)
    if redis.call('EXISTS', lane) == 0 then redis.call('ZREM', LANES, h.queue) end
end

-- Take a ready task out of the Stream. The generation must change: a worker may have read the entry already.
local function leave_stream(h, id)
    local entry = string.match(redis.call('HGET', FLIGHT, id) or '', '^%S+')
    if entry then
        redis.call('XACK', READY_STREAM, GROUP, entry)
        redis.call('XDEL', READY_STREAM, entry)
        redis.call('HDEL', FLIGHT, id)
    end
    add(out, h.queue, -1)
end

-- Take a task out of the Stream back to its lane, in its old place; or to its end when a cancel was asked for or it has
-- expired. Nobody who holds it still can settle it.
local function put_back(h, id, now)
    if h.state == DELIVERING then add(busy, h.queue, -1) end
    add(out, h.queue, -1)
    h.generation = h.generation + 1
    h.state = h.cancel and CANCELLED or is_expired(h, now) and EXPIRED or SCHEDULED
    if h.state == SCHEDULED then
        local due = math.min(due_of(h), now)
        write_head(h, due)
        schedule(h.queue, id, due)
        if h.expires_at then schedule_expiry(id, h.expires_at) end
    else
        write_head(h, now)
        finish(h, id, now)
    end
end

-- A task in the Stream whose record is gone (deleted by hand) leaves every count, once.
local function forget(id, entry, is_busy)
    local place = redis.call('HGET', FLIGHT, id)
    local at, queue = string.match(place or '', '^(%S+) (.+)$')
    if at ~= entry then return end
    redis.call('HDEL', FLIGHT, id)
    leave_expiry(id)
    add(queues, queue, -1)
    add(totals, 'orphans', 1)
    add(totals, 'pending', -1)
    add(out, queue, -1)
    if is_busy then add(busy, queue, -1) end
end

-- How old an entry of the Stream is.
local function age_of(entry, now)
    return math.max(0, now - string.match(entry, '^%d+'))
end

-- The age of the oldest entry of each queue that delivers, or only of the one given. Entries come oldest first, and the
-- look ends when each of these queues, so many, has one.
local OLDEST_LOOK = 256
local function oldest_delivering(now, missing, only)
    local oldest = {}
    if missing == 0 then return oldest end
    for _, p in ipairs(redis.call('XPENDING', READY_STREAM, GROUP, '-', '+', OLDEST_LOOK)) do
        local entry = redis.call('XRANGE', READY_STREAM, p[1], p[1])[1]
        local h = entry and read_head(base .. entry[2][2])
        if h and not oldest[h.queue] and (not only or h.queue == only) then
            oldest[h.queue] = age_of(p[1], now)
            missing = missing - 1
            if missing == 0 then break end
        end
    end
    return oldest
end

-- Overdue tasks of a lane, and the age of the oldest (-1).
local function overdue_in(lane, now)
    local count = redis.pcall('ZCOUNT', lane, '-inf', '(' .. digits(now))
    if type(count) ~= 'number' or count == 0 then return 0, -1 end
    return count, now - redis.call('ZRANGE', lane, 0, 0, 'WITHSCORES')[2]
end

-- What is shown of a queue: {name, scheduled, overdue, age of the oldest overdue (-1), ready, delivering, age of its
-- oldest delivering (-1), dead, its settings or ""}. A lane that is held by the limits of its queue is not due in the
-- index, and so has nothing overdue.
local function describe_queue(name, now, oldest)
    local lane = base .. ':q:' .. name
    local overdue, overdue_age = 0, -1
    local releases_at = redis.call('ZSCORE', LANES, name)
    if releases_at and tonumber(releases_at) <= now then overdue, overdue_age = overdue_in(lane, now) end
    local released, delivers = number_in(OUT, name), number_in(BUSY, name)
    return {name, size_of(lane), overdue, overdue_age, released - delivers, delivers, oldest[name] or -1,
        size_of(base .. ':dead:' .. name), redis.call('HGET', SETTINGS, name) or ''}
end
