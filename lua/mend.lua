-- Look for entries of the Stream without a task, and for records that are in no container, a step at a time.
-- KEYS:    as in common.lua
-- ARGV:    base, where to go on ("" from the start), how many to look at
-- Returns: {where to go on ("": all were seen), tasks repaired}
-- Cost: O(log N) a key looked at. Idempotent.
--
-- This goes through the whole keyspace, so it is only begun when orphans.lua has counted a difference. First comes the
-- Stream, which says where tasks are whose `flight` was lost; then all records.
local now = clock()
local limit = tonumber(ARGV[3])
local phase, at = string.sub(ARGV[2], 1, 1), string.sub(ARGV[2], 2)
local repaired = 0

local function look_at_entry(entry, fields)
    local id, generation = fields[2], tonumber(fields[4])
    local h = read_head(base .. id)
    if h and h.generation == generation and (h.state == READY or h.state == DELIVERING) then
        redis.call('HSETNX', FLIGHT, id, entry .. ' ' .. h.queue)
        return
    end
    if not h then forget(id, entry, false) end
    redis.call('XACK', READY_STREAM, GROUP, entry)
    redis.call('XDEL', READY_STREAM, entry)
end

local function look_at_stream(from)
    local entries = redis.call('XRANGE', READY_STREAM, from, '+', 'COUNT', limit)
    for _, e in ipairs(entries) do look_at_entry(e[1], e[2]) end
    return #entries == limit and 's(' .. entries[limit][1] or 'k0'
end

-- When a task was finished, or is due: `when` of its history, else its first due time.
local function when(h)
    if h.history == 0 then return h.run_at end
    return (struct.unpack(WHEN, redis.call('GETRANGE', h.key, HEAD_BYTES, HEAD_BYTES + WHEN_BYTES - 1)))
end

local function is_in(key, id)
    return type(redis.pcall('ZSCORE', key, id)) == 'string'
end

-- The index of what expires says nothing of a task under way.
local function index_expiry(h, id)
    if h.state <= READY and h.expires_at and not is_in(EXPIRY, id) then schedule_expiry(id, h.expires_at) end
end

local function repair(h, id)
    index_expiry(h, id)
    if h.state == SCHEDULED then
        if is_in(base .. ':q:' .. h.queue, id) then return false end
        schedule(h.queue, id, when(h))
    elseif h.state == READY or h.state == DELIVERING then
        if redis.call('HEXISTS', FLIGHT, id) == 1 then return false end
        put_back(h, id, now)
    else
        local is_fine = is_in(FINISHED[h.state], id) and (h.state ~= DEAD or is_in(base .. ':dead:' .. h.queue, id))
        if is_fine then return false end
        redis.call('ZADD', FINISHED[h.state], when(h), id)
        if h.state == DEAD then put_in_zset(base .. ':dead:' .. h.queue, when(h), id) end
    end
    return true
end

local function look_at_records(cursor)
    local pattern = string.gsub(base, '[%*%?%[%]\\]', '\\%0') .. '[0-9A-Za-z]*'
    local step = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', limit, 'TYPE', 'string')
    for _, key in ipairs(step[2]) do
        local h = read_head(key)
        if h and repair(h, string.sub(key, #base + 1)) then repaired = repaired + 1 end
    end
    return step[1] ~= '0' and 'k' .. step[1] or ''
end

local next_at
if phase == 'k' then next_at = look_at_records(at) else next_at = look_at_stream(phase == 's' and at or '-') end
add(totals, 'orphans', repaired)
commit()
return {next_at, repaired}
