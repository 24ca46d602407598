-- Take tasks that were just read from the Stream: ready -> delivering.
-- KEYS:    as in common.lua, then one record key an entry
-- ARGV:    base, 1 when the caller may have claimed these before and not heard the answer (else 0), then for each
--          entry: entry id, generation
-- Returns: Redis TIME in us, then for each entry its record (in which the state may still be ready), or nil when the
--          task is gone, has ended or went back to its lane, since or just now; such an entry is dropped.
-- Cost: constant an entry, and the bytes of the answer. Idempotent: an entry that the caller claimed before gives its
--       record again.
--
-- An entry can be read twice when the group was made again, or given to another consumer by hand. Whoever claimed it
-- first delivers; to others it gives nil and stays where it is, and should the first be dead it is taken back like any
-- entry of a silent worker.
--
-- Bodies may be large, and while this copies them Redis does nothing else. Past ANSWER_BYTES the others go back to
-- their lane, due at once, for the next call. So do the tasks of a queue that was paused since they were moved; and one
-- that has expired meets its end here instead of being sent.
local ANSWER_BYTES = 16777216
local DELIVERING_BYTE = string.char(FORMAT + DELIVERING)
local now, now_us = clock()
local reply, stale, returned = {now_us}, {}, {}
local is_repeat = ARGV[2] == '1'
local bytes = 0

local is_paused = {}
local function may_start(h)
    if is_paused[h.queue] == nil then
        local limits = limits_of(h.queue)
        is_paused[h.queue] = limits ~= nil and limits.paused
    end
    return bytes < ANSWER_BYTES and not is_paused[h.queue] and not is_expired(h, now)
end

local function take(h)
    if h.state == READY then
        redis.call('SETRANGE', h.key, '0', DELIVERING_BYTE)
        add(busy, h.queue, 1)
    end
    local record = h.whole or redis.call('GET', h.key)
    bytes = bytes + #record
    return record
end

local arg = 3
for i = FIRST + 1, #KEYS do
    local entry, generation = ARGV[arg], tonumber(ARGV[arg + 1])
    local h = read_head(KEYS[i])
    local is_current = h and h.generation == generation
    if is_current and h.state == DELIVERING and not is_repeat then
        reply[#reply + 1] = false
    elseif is_current and (h.state == READY or h.state == DELIVERING) and may_start(h) then
        reply[#reply + 1] = take(h)
    else
        local id = string.sub(KEYS[i], #base + 1)
        if not h then
            forget(id, entry, is_repeat)
        elseif is_current and (h.state == READY or h.state == DELIVERING) then
            put_back(h, id, now)
            returned[#returned + 1] = id
        end
        stale[#stale + 1] = entry
        reply[#reply + 1] = false
    end
    arg = arg + 2
end
if #stale > 0 then
    redis.call('XACK', READY_STREAM, GROUP, unpack(stale))
    redis.call('XDEL', READY_STREAM, unpack(stale))
end
leave_flight(returned)
commit()
return reply
