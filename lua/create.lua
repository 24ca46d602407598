-- Create tasks: (nothing) -> scheduled.
-- KEYS:    as in common.lua, then one record key a task, then the keys of those that came with an Idempotency-Key
-- ARGV:    base, how many tasks may be pending (0: any number), the count of changes of the queues' settings that the
--          specifications rest on, then for each task: id, due ("+ms" from now, or Unix ms), queue, digest of the
--          request when the client chose the id, else empty; specification, which holds the digest; then for each
--          Idempotency-Key: which of the tasks it came with (from 1), digest of the request
-- Returns: {-1} when a queue's settings have changed: nothing was done. Else now in ms, then for each task its due
--          time in ms, or -1 when too many are pending, or what has this id already ('' when that is no text), or,
--          when the Idempotency-Key was used before, {that task's id, its record or nil, 1 when the request was the
--          same or 0}. Nothing is changed then.
-- Cost: O(log N) a task. Idempotent by id and key: the first write decides, so out of memory refuses the whole call.
--
-- The generation begins anywhere: when an id is used again after its record is gone, whoever comes late with an entry
-- of the earlier task is not taken for an owner of this one.
--
-- An Idempotency-Key is claimed together with the task it made, or that its request made before under the same id; a
-- request that fails claims nothing.
local KEY_KEPT_MS = 86400000
if settings_count() ~= ARGV[3] then return {-1} end
local now, now_us = clock()
local reply = {now}
local room = math.huge
if ARGV[2] ~= '0' then room = ARGV[2] - number_in(TOTALS, 'pending') end

-- No record's key begins like this, so it tells where the record keys end.
local key_start = base .. ':k:'
local last = #KEYS
while string.sub(KEYS[last], 1, #key_start) == key_start do last = last - 1 end
local keyed = {}
for i = 1, #KEYS - last do
    local at = #ARGV - 2 * (#KEYS - last - i) - 1
    keyed[FIRST + ARGV[at]] = {name = KEYS[last + i], digest = ARGV[at + 1]}
end

local function varint(text, at)
    local value, scale = 0, 1
    while true do
        local b = string.byte(text, at) or 0
        at = at + 1
        if b < 128 then return value + b * scale, at end
        value, scale = value + (b - 128) * scale, scale * 128
    end
end

-- Whether a record was made by the request with this digest, which is the first member of its specification, behind
-- queue, kinds with the time of expiry, the set of members and the url.
local function was_made_by(record, digest)
    if digest == '' or #record < HEAD_BYTES then return false end
    local history = string.byte(record, HEAD_BYTES - 1) * 256 + string.byte(record, HEAD_BYTES)
    local at = HEAD_BYTES + history + 1
    local members, url_bytes
    at = at + (string.byte(record, at) or 0) + 1
    if (string.byte(record, at) or 0) % 64 >= KIND_EXPIRES then at = at + WHEN_BYTES end
    members, at = varint(record, at + 1)
    url_bytes, at = varint(record, at)
    at = at + url_bytes
    return members % 2 == 1 and string.sub(record, at, at + #digest - 1) == digest
end

local function remember(key, id)
    redis.call('SET', key.name, key.digest .. id, 'PX', KEY_KEPT_MS)
end

-- The outcome for a key that was used before. A call that is repeated because its answer was lost meets its own id,
-- when that was not the client's choice; then it is no duplicate.
local function used_before(key, kept, own_id, own_digest)
    local id = string.sub(kept, #key.digest + 1)
    local is_same = string.sub(kept, 1, #key.digest) == key.digest
    if is_same and (own_digest ~= '' or own_id ~= id) then add(totals, 'duplicates', 1) end
    return {id, beginning_of(base .. id), is_same and 1 or 0}
end

local arg = 4
for i = FIRST + 1, last do
    local id, due, queue = ARGV[arg], ARGV[arg + 1], ARGV[arg + 2]
    local key = keyed[i]
    local kept = key and redis.pcall('GET', key.name)
    if type(kept) ~= 'string' then kept = nil end
    if string.byte(due) == 43 then due = now + string.sub(due, 2) else due = math.max(now, tonumber(due)) end
    local head = struct.pack(HEAD, FORMAT + SCHEDULED, 0, 0, now_us % 65536, due, now, 0)
    local spec, expires_at = settle_expiry(ARGV[arg + 4], now)
    if kept then
        reply[#reply + 1] = used_before(key, kept, id, ARGV[arg + 3])
    elseif room < 1 and redis.call('EXISTS', KEYS[i]) == 0 then
        reply[#reply + 1] = -1
    elseif redis.call('SET', KEYS[i], head .. spec, 'NX') then
        if key then remember(key, id) end
        schedule(queue, id, due)
        if expires_at then schedule_expiry(id, expires_at) end
        add(queues, queue, 1)
        add(totals, 'created', 1)
        add(totals, 'pending', 1)
        room = room - 1
        reply[#reply + 1] = due
    else
        local record = beginning_of(KEYS[i]) or ''
        if was_made_by(record, ARGV[arg + 3]) then
            add(totals, 'duplicates', 1)
            if key then remember(key, id) end
        end
        reply[#reply + 1] = record
    end
    arg = arg + 5
end
commit()
return reply
