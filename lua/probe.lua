-- Find out whether tasks can be accepted now: a real script that writes (fails on a replica, out of memory, full disk).
-- KEYS:    as in common.lua, then [17] <base>:probe
-- ARGV:    base
-- Returns: 1
redis.call('SET', KEYS[FIRST + 1], clock(), 'PX', 60000)
return 1
