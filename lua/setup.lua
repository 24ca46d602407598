-- Make a partition ready for use: run after every connect, and again when Redis says that the group is gone or a
--          container is of another type.
-- KEYS:    as in common.lua, then [17] <base>:meta
-- ARGV:    base, the layout this gateway reads and writes (for instance "format=1 partitions=1")
-- Returns: the layout found; equal to the one given unless the keyspace was made by another version or setting.
-- Cost: constant. Idempotent.
--
-- Nothing is written that is there already, so a connection can be made while Redis is out of memory. What somebody has
-- put in a container's place by hand, of another type, goes: it would fail most calls for everybody. The rest follows
-- as after a deletion by hand.
local TYPES = {[LANES] = 'zset', [READY_STREAM] = 'stream', [TOTALS] = 'hash', [OUT] = 'hash', [BUSY] = 'hash',
    [QUEUES] = 'hash', [WORKERS] = 'hash', [FLIGHT] = 'hash', [SETTINGS] = 'hash', [RATES] = 'hash', [EXPIRY] = 'zset',
    [CALLBACKS] = 'zset'}
for state = DELIVERED, EXPIRED do TYPES[FINISHED[state]] = 'zset' end

local function make_room()
    for key, kind in pairs(TYPES) do
        local found = redis.call('TYPE', key).ok
        if found ~= 'none' and found ~= kind then redis.call('UNLINK', key) end
    end
end

local meta = KEYS[FIRST + 1]
local layout = redis.call('GET', meta)
if not layout then
    redis.call('SET', meta, ARGV[2])
    layout = ARGV[2]
end
if layout == ARGV[2] then
    make_room()
    mark_flight()
    -- BUSYGROUP: it is there already.
    redis.pcall('XGROUP', 'CREATE', READY_STREAM, GROUP, '0', 'MKSTREAM')
end
return layout
