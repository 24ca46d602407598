-- Take tasks that were just read from the Stream: ready -> delivering.
-- KEYS:    as in common.lua, then one record key an entry
-- ARGV:    base, then for each entry: entry id, generation
-- Returns: Redis TIME in us, then for each entry its record, or nil when the task is gone, was cancelled or went back
--          to its lane since; such an entry is dropped.
-- Cost: constant an entry. Idempotent: an entry that is claimed already gives its record again.
local _, now_us = clock()
local reply, stale = {now_us}, {}
local arg = 2
for i = FIRST + 1, #KEYS do
    local entry, generation = ARGV[arg], tonumber(ARGV[arg + 1])
    local h = read_head(KEYS[i])
    if h and h.generation == generation and (h.state == READY or h.state == DELIVERING) then
        if h.state == READY then
            local state = string.char(FORMAT + DELIVERING)
            redis.call('SETRANGE', KEYS[i], 0, state)
            if h.whole then h.whole = state .. string.sub(h.whole, 2) end
            add(busy, h.queue, 1)
        end
        reply[#reply + 1] = h.whole or redis.call('GET', KEYS[i])
    else
        stale[#stale + 1] = entry
        reply[#reply + 1] = false
    end
    arg = arg + 2
end
if #stale > 0 then
    redis.call('XACK', READY_STREAM, GROUP, unpack(stale))
    redis.call('XDEL', READY_STREAM, unpack(stale))
end
flush_counters()
return reply
