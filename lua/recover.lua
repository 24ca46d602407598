-- Take back what dead workers held: ready | delivering -> scheduled, due now; and write this gateway's heartbeat.
-- KEYS:    as in common.lua
-- ARGV:    base, gateway, its claim-idle in ms, entry id to go on after ("-" from the start), entries to look at,
--          takeovers after which a task is dead, the encoded attempt for that case
--          (its time, bytes 2 to 7, is filled in here), 1 to only write the heartbeat, the time in ms that the caller
--          believes it is here (0: it does not know)
-- Returns: {entry id to go on after ("-" when all were seen), tasks taken back; -1 when only the heartbeat was written
--          because the clock is ahead of what the caller believes: it was stepped, and all seem silent since}
-- Cost: O(log N) an entry looked at.
--
-- An entry that was silent for its owner's claim-idle belongs to a dead worker: consumers are named GATEWAY/THREAD,
-- and each gateway writes its own claim-idle beside its heartbeat. The task goes through its lane again, so limits
-- and turns hold for it as for any other, and its generation changes: should the old owner come back, it settles
-- nothing.
local now = clock()
local gateway, default_idle, cursor, limit = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local takeovers_max, lost_attempt = tonumber(ARGV[6]), ARGV[7]
local believed = tonumber(ARGV[9] or 0)
local FORGET_MS = 60000
local STEP_MS = 1000

redis.call('HSET', WORKERS, gateway, default_idle .. ' ' .. string.format('%.0f', now))
if ARGV[8] == '1' then return {'-', 0} end
if believed > 0 and now - believed > STEP_MS then return {'-', -1} end

local idle_of = {}
local function claim_idle(consumer)
    local owner = string.match(consumer, '^(.*)/') or consumer
    if not idle_of[owner] then
        local beat = redis.call('HGET', WORKERS, owner)
        idle_of[owner] = beat and tonumber(string.match(beat, '^%d+')) or default_idle
    end
    return idle_of[owner]
end

local taken = {}
local function take_back(h, id)
    taken[#taken + 1] = id
    add(totals, 'recovered', 1)
    h.takeovers = h.takeovers + 1
    if h.cancel or h.takeovers < takeovers_max then
        put_back(h, id, now)
        return
    end
    if h.state == DELIVERING then add(busy, h.queue, -1) end
    add(out, h.queue, -1)
    h.generation = h.generation + 1
    h.state = DEAD
    local attempt = string.sub(lost_attempt, 1, 1) .. struct.pack(WHEN, now) .. string.sub(lost_attempt, 8)
    write_history(h, now, history_of(h) .. attempt, -1)
    finish(h, id, now)
end

-- An entry of the PEL whose Stream entry is gone (deleted by hand) does not say which task it was; orphans.lua finds
-- that.
local function recover(entry)
    local found = redis.call('XRANGE', READY_STREAM, entry, entry)[1]
    if found then
        local id, generation = found[2][2], tonumber(found[2][4])
        local h = read_head(base .. id)
        if not h then
            forget(id, entry, true)
        elseif h.generation == generation and (h.state == READY or h.state == DELIVERING) then
            take_back(h, id)
        end
    end
    redis.call('XACK', READY_STREAM, GROUP, entry)
    redis.call('XDEL', READY_STREAM, entry)
end

-- Consumers of gateways that have been silent for long go, once they hold nothing; and those of gateways that died
-- before their first heartbeat.
local function forget_dead_gateways()
    local dead, known = {}, {}
    local beats = redis.call('HGETALL', WORKERS)
    for i = 1, #beats, 2 do
        local idle, beat = string.match(beats[i + 1], '^(%d+) (%d+)$')
        known[beats[i]] = true
        if not beat or now - beat > math.max(FORGET_MS, 10 * idle) then dead[beats[i]] = true end
    end
    for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', READY_STREAM, GROUP)) do
        local owner = string.match(consumer[2], '^(.*)/') or consumer[2]
        if dead[owner] or not known[owner] and consumer[6] > math.max(FORGET_MS, 10 * default_idle) then
            if consumer[4] == 0 then
                redis.call('XGROUP', 'DELCONSUMER', READY_STREAM, GROUP, consumer[2])
            else
                dead[owner] = nil
            end
        end
    end
    for owner in pairs(dead) do redis.call('HDEL', WORKERS, owner) end
end

local from = cursor == '-' and '-' or '(' .. cursor
local pending = redis.call('XPENDING', READY_STREAM, GROUP, 'IDLE', 1000, from, '+', limit)
local recovered = 0
for _, p in ipairs(pending) do
    if p[3] >= claim_idle(p[2]) then
        recover(p[1])
        recovered = recovered + 1
    end
end
if cursor == '-' then forget_dead_gateways() end
leave_flight(taken)
commit()
return {#pending == limit and pending[limit][1] or '-', recovered}
