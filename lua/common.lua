-- Shared by every script: the build puts this file in front of each of them, since Redis scripts cannot load one
-- another.
--
-- One partition of Duepost is these keys, all in one hash slot by the tag in `base` (for instance "duepost{0}"):
--
--   <base>ID           record of task ID (an id begins with a letter or digit, so it never meets a ":name")
--   <base>:lanes       ZSet  queue -> when its lane can release next: its earliest due time, or when it was last served
--   <base>:q:QUEUE     ZSet  id -> due time in ms: the lane, the container of `scheduled`
--   <base>:ready       Stream of {i = id, g = generation}: `ready` until read, `delivering` while in the group's PEL
--   <base>:totals      Hash  counters of /stats, and `pending`: tasks that are not finished
--   <base>:out         Hash  queue -> tasks in the Stream, ready or delivering
--   <base>:busy        Hash  queue -> tasks delivering
--   <base>:queues      Hash  queue -> records it has, finished ones included
--   <base>:delivered, :dead, :cancelled, :expired    ZSet  id -> finished_at: the containers of the finished states
--   <base>:dead:QUEUE  ZSet  id -> finished_at: the dead of one queue
--   <base>:k:DIGEST    digest of a request and the id of the task it made, for 24 h: an Idempotency-Key, by its digest
--   <base>:workers     Hash  gateway -> "claim_idle_ms heartbeat_ms"
--   <base>:flight      Hash  id -> "ENTRY QUEUE": where each task in the Stream is, ready or delivering; and the field
--                      ":", which is no task
--
-- A record is one string, small because there may be millions: a head of fixed size that scripts rewrite in place, the
-- history of attempts (empty before the first, else the time `when` in 6 bytes and what src/store/record_priv.h
-- encodes), and the specification of the task, which begins with the length and name of its queue (0: "default") and
-- ends with the body.
--
-- The generation changes whenever a task goes back to its lane or ends, so an entry of the Stream or a worker that
-- comes late is recognised and changes nothing.

-- The containers whose names are known beforehand come as KEYS in this order; record keys follow from KEYS[FIRST + 1].
local LANES, READY_STREAM, TOTALS, OUT, BUSY, QUEUES = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local FINISHED = {[3] = KEYS[7], [4] = KEYS[8], [5] = KEYS[9], [6] = KEYS[10]}
local WORKERS, FLIGHT = KEYS[11], KEYS[12]
local FIRST = 12
local base = ARGV[1]

local GROUP = 'workers'
local SCHEDULED, READY, DELIVERING, DELIVERED, DEAD, CANCELLED, EXPIRED = 0, 1, 2, 3, 4, 5, 6
local STATE_COUNTER = {[DELIVERED] = 'delivered', [DEAD] = 'dead', [CANCELLED] = 'cancelled', [EXPIRED] = 'expired'}

-- Head: format and state, cancel mark and takeovers, attempts, generation, run_at, created_at, bytes of history.
local HEAD, HEAD_BYTES, HEAD_LAST, FORMAT = '>BBHHI6I6H', 20, '19', 16
local CANCEL_MARK = 128
local WHEN, WHEN_BYTES = '>I6', 6

-- Redis TIME, the only clock: in ms and in us.
local function clock()
    local t = redis.call('TIME')
    local us = t[1] * 1000000 + t[2]
    return math.floor(us / 1000), us
end

-- A whole number as text. Redis writes a number that redis.call gets by "%.17g", which costs more than many a command;
-- so the calls that are made once a task get texts.
local function digits(n)
    return string.format('%d', n)
end

-- Counters are gathered in tables and written once a call.
local function add(counters, name, n)
    counters[name] = (counters[name] or 0) + n
end

local function flush(key, counters)
    for name, n in pairs(counters) do
        if n ~= 0 then redis.call('HINCRBY', key, name, n) end
    end
end

-- As flush, for hashes whose fields go when they reach zero.
local function flush_level(key, counters)
    for name, n in pairs(counters) do
        if n ~= 0 and redis.call('HINCRBY', key, name, n) <= 0 then redis.call('HDEL', key, name) end
    end
end

local totals, out, busy = {}, {}, {}
local function flush_counters()
    flush(TOTALS, totals)
    flush_level(OUT, out)
    flush_level(BUSY, busy)
end

-- The head of a record as a table, its queue included; nil when there is no such record, or something that is none:
-- one that was broken by hand must not fail the call for all others in it. Most records are short: then `whole` is all
-- of it, as read, and saves reading it again.
local GLANCE_BYTES, GLANCE_LAST = 512, '511'
local function read_head(key)
    local text = redis.pcall('GETRANGE', key, '0', GLANCE_LAST)
    if type(text) ~= 'string' or #text < HEAD_BYTES then return nil end
    local h = {key = key}
    if #text < GLANCE_BYTES then h.whole = text end
    local state, marks
    state, marks, h.attempts, h.generation, h.run_at, h.created_at, h.history = struct.unpack(HEAD, text)
    h.state = state - FORMAT
    h.cancel = marks >= CANCEL_MARK
    h.takeovers = marks % CANCEL_MARK
    local at = HEAD_BYTES + h.history
    if not h.whole and #text < at + 65 then text = redis.call('GETRANGE', key, 0, at + 64) end
    local queue_bytes = string.byte(text, at + 1)
    if not queue_bytes or h.state < SCHEDULED or h.state > EXPIRED then return nil end
    h.queue = queue_bytes > 0 and string.sub(text, at + 2, at + 1 + queue_bytes) or 'default'
    return h
end

local function pack_head(h)
    return struct.pack(HEAD, FORMAT + h.state, (h.cancel and CANCEL_MARK or 0) + h.takeovers, h.attempts,
        h.generation % 65536, h.run_at, h.created_at, h.history)
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

-- Put a task into its lane. schedule_done() must follow once in the call: it brings the index of lanes up to date and
-- wakes the movers when something is due earlier than all before.
local lane_due = {}
local function schedule(queue, id, due)
    redis.call('ZADD', base .. ':q:' .. queue, digits(due), id)
    if not lane_due[queue] or due < lane_due[queue] then lane_due[queue] = due end
end

local function schedule_done()
    local earliest
    for _, due in pairs(lane_due) do
        if not earliest or due < earliest then earliest = due end
    end
    if not earliest then return end
    local head = redis.call('ZRANGE', LANES, 0, 0, 'WITHSCORES')
    for queue, due in pairs(lane_due) do redis.call('ZADD', LANES, 'LT', due, queue) end
    if not head[2] or earliest < tonumber(head[2]) then
        redis.call('PUBLISH', base .. ':wake', string.format('%.0f', earliest))
    end
end

-- Move a task into the container of a finished state. The record's head is written by the caller.
local function finish(h, id, now)
    redis.call('ZADD', FINISHED[h.state], digits(now), id)
    if h.state == DEAD then redis.call('ZADD', base .. ':dead:' .. h.queue, now, id) end
    add(totals, STATE_COUNTER[h.state], 1)
    add(totals, 'pending', -1)
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

-- Take a task out of the Stream back to its lane, due now; or to its end when a cancel was asked for. Nobody who holds
-- it still can settle it.
local function put_back(h, id, now)
    if h.state == DELIVERING then add(busy, h.queue, -1) end
    add(out, h.queue, -1)
    h.generation = h.generation + 1
    h.state = h.cancel and CANCELLED or SCHEDULED
    write_head(h, now)
    if h.cancel then finish(h, id, now) else schedule(h.queue, id, now) end
end

-- A task in the Stream whose record is gone (deleted by hand) leaves every count, once.
local function forget(id, entry, is_busy)
    local place = redis.call('HGET', FLIGHT, id)
    local at, queue = string.match(place or '', '^(%S+) (.+)$')
    if at ~= entry then return end
    redis.call('HDEL', FLIGHT, id)
    flush_level(QUEUES, {[queue] = -1})
    add(totals, 'orphans', 1)
    add(totals, 'pending', -1)
    add(out, queue, -1)
    if is_busy then add(busy, queue, -1) end
end
