-- Make a partition ready for use: run after every connect, and again when Redis says that the group is gone.
-- KEYS:    as in common.lua, then [13] <base>:meta
-- ARGV:    base, the layout this gateway reads and writes (for instance "format=1 partitions=1")
-- Returns: the layout found; equal to the one given unless the keyspace was made by another version or setting.
-- Cost: constant. Idempotent.
--
-- Nothing is written that is there already, so a connection can be made while Redis is out of memory.
local meta = KEYS[FIRST + 1]
local layout = redis.call('GET', meta)
if not layout then
    redis.call('SET', meta, ARGV[2])
    layout = ARGV[2]
end
if layout == ARGV[2] then
    mark_flight()
    -- BUSYGROUP: it is there already.
    redis.pcall('XGROUP', 'CREATE', READY_STREAM, GROUP, '0', 'MKSTREAM')
end
return layout
