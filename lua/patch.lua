-- Change pending tasks: scheduled | ready -> the same, or back to its lane when its time changes.
-- KEYS:    as in common.lua, then one record key a task
-- ARGV:    base, the count of changes of the queues' settings that the new specifications rest on, then for each task:
--          id, due ("" as it is, "+ms" from now, or Unix ms), 1 when this may have been done before and the answer was
--          lost (else 0), the specification that was changed, the new one
-- Returns: {-1} when a queue's settings have changed: nothing was done. Else for each task {state found, its record as
--          it is now, or nil when nothing was done}. Nothing is done when there is no such task (state -1), when it is
--          neither scheduled nor ready, or when its specification is no longer the one that was changed.
-- Cost: O(log N) a task, and the bytes of the records. Idempotent: a repeat finds the new specification in place; one
--       of the time alone sets it again, or finds it in a task that has gone on meanwhile.
--
-- The entry of a ready task holds no more than its id, so a worker that takes it later sees the change. When its time
-- changes it leaves the Stream; a worker that has read it finds the generation changed. A lane whose first task now
-- comes later stays in the index as it was, and the mover puts it right when it looks.
if settings_count() ~= ARGV[2] then return {-1} end
local now = clock()

local function spec_of(h)
    if h.whole then return string.sub(h.whole, HEAD_BYTES + h.history + 1) end
    return redis.call('GETRANGE', h.key, HEAD_BYTES + h.history, -1)
end

-- Whether a specification is the one that was asked for; an expiry that counts from now became a time meanwhile.
local function is_result(spec, asked)
    if spec == asked then return true end
    local kinds_at = string.byte(asked, 1) + 2
    local rest = kinds_at + WHEN_BYTES + 1
    return string.byte(asked, kinds_at) % 64 >= KIND_EXPIRES and string.byte(asked, kinds_at + 1) >= 128 and
        string.sub(spec, 1, kinds_at) == string.sub(asked, 1, kinds_at) and
        string.sub(spec, rest) == string.sub(asked, rest)
end

-- Back to its lane, or to another place in it.
local function reschedule(h, id, due)
    if string.byte(due) == 43 then due = now + string.sub(due, 2) else due = math.max(now, tonumber(due)) end
    if h.state == READY then
        leave_stream(h, id)
        h.generation = h.generation + 1
        h.state = SCHEDULED
    end
    h.run_at = due
    schedule(h.queue, id, due)
    return due
end

-- Whether a task was due when it was asked to be. "+ms", and a time that had passed, count from the first call.
local REPEAT_MS = 10000
local function has_time(h, due)
    if due == '' then return false end
    local at = tonumber(due)
    local counts_from = string.byte(due) == 43 and h.run_at - at or h.run_at
    return h.run_at == at or (at < h.run_at and counts_from <= now and counts_from > now - REPEAT_MS)
end

local function patch(h, id, due, asked)
    local spec, expires_at = settle_expiry(asked, now)
    local when = due == '' and due_of(h) or reschedule(h, id, due)
    local history = ''
    if h.history > 0 then
        history = struct.pack(WHEN, when) .. history_of(h)
    end
    local record = pack_head(h) .. history .. spec
    redis.call('SET', h.key, record)
    if expires_at then
        schedule_expiry(id, expires_at)
    elseif h.expires_at then
        leave_expiry(id)
    end
    return string.sub(record, 1, BEGINNING_LAST + 1)
end

-- Whether a call that is repeated has done its work already.
local function has_effect(h, spec, old, due, asked)
    if asked ~= old then return is_result(spec, asked) end
    return h.state > READY and spec == asked and has_time(h, due)
end

local reply = {}
local arg = 3
for i = FIRST + 1, #KEYS do
    local h = read_head(KEYS[i])
    if not h then
        reply[#reply + 1] = {-1, false}
    else
        local spec = spec_of(h)
        local id, due, asked = ARGV[arg], ARGV[arg + 1], ARGV[arg + 4]
        local was_done = ARGV[arg + 2] == '1' and has_effect(h, spec, ARGV[arg + 3], due, asked)
        if was_done then
            reply[#reply + 1] = {h.state, beginning_of(h.key)}
        elseif h.state <= READY and spec == ARGV[arg + 3] then
            reply[#reply + 1] = {h.state, patch(h, id, due, asked)}
        else
            reply[#reply + 1] = {h.state, false}
        end
    end
    arg = arg + 5
end
commit()
return reply
