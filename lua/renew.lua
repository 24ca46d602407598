-- Tell the group that deliveries under way are alive: resets the idle time of a worker's own entries.
-- KEYS:    as in common.lua
-- ARGV:    base, consumer, then entry ids
-- Returns: how many are still this consumer's.
-- Cost: O(log N) an entry. Idempotent. XCLAIM alone has no condition on the owner and would steal an entry back.
local mine = {}
for i = 3, #ARGV do
    if #redis.call('XPENDING', READY_STREAM, GROUP, ARGV[i], ARGV[i], 1, ARGV[2]) > 0 then mine[#mine + 1] = ARGV[i] end
end
if #mine > 0 then
    local call = {'XCLAIM', READY_STREAM, GROUP, ARGV[2], 0}
    for _, entry in ipairs(mine) do call[#call + 1] = entry end
    call[#call + 1] = 'JUSTID'
    redis.call(unpack(call))
end
return #mine
