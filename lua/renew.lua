-- Tell the group that deliveries under way are alive: resets the idle time of a worker's own entries.
-- KEYS:    as in common.lua
-- ARGV:    base, consumer, then for each entry: entry id, generation
-- Returns: how many are still this consumer's.
-- Cost: O(log N) an entry. Idempotent. XCLAIM alone has no condition on the owner and would steal an entry back.
--
-- When the group was made again another consumer may have read an entry that this one delivers (claim.lua gave it
-- nothing). As long as the record says so it is this one's, and comes back to it; else it would be taken for one of a
-- worker that died.
local consumer = ARGV[2]

local function is_delivered_by_caller(entry, generation)
    if #redis.call('XPENDING', READY_STREAM, GROUP, entry, entry, 1) == 0 then return false end
    local found = redis.call('XRANGE', READY_STREAM, entry, entry)[1]
    local h = found and read_head(base .. found[2][2])
    return h and h.state == DELIVERING and h.generation == generation
end

local mine = {}
for i = 3, #ARGV, 2 do
    local entry = ARGV[i]
    if #redis.call('XPENDING', READY_STREAM, GROUP, entry, entry, 1, consumer) > 0 or
        is_delivered_by_caller(entry, tonumber(ARGV[i + 1])) then
        mine[#mine + 1] = entry
    end
end
if #mine > 0 then
    local call = {'XCLAIM', READY_STREAM, GROUP, consumer, 0}
    for _, entry in ipairs(mine) do call[#call + 1] = entry end
    call[#call + 1] = 'JUSTID'
    redis.call(unpack(call))
end
return #mine
