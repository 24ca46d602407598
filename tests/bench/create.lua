-- luacheck: globals wrk done
-- For wrk: POST /tasks without an id, about 110 bytes. At the end one line: BENCH requests seconds failures.
--   BENCH_URL      the receiver
--   BENCH_WHEN     a member such as "delay":3600000, or empty: now
--   BENCH_PAYLOAD  bytes of the payload; 0: that of an order, 45
--   BENCH_BATCH    tasks a request; 1: one, without a batch
local when = os.getenv('BENCH_WHEN') or ''
local payload_bytes = tonumber(os.getenv('BENCH_PAYLOAD') or 0)
local batch = tonumber(os.getenv('BENCH_BATCH') or 1)
if when ~= '' then when = when .. ',' end

local payload = '{"order":4711,"note":"close the unpaid order"}'
if payload_bytes > 0 then payload = string.format('{"text":"%s"}', string.rep('x', payload_bytes - 11)) end
local task = string.format('{"url":"%s",%s"payload":%s}', os.getenv('BENCH_URL'), when, payload)

wrk.method = 'POST'
wrk.headers['Content-Type'] = 'application/json'
if batch > 1 then
    wrk.path = '/tasks/batch'
    wrk.body = string.format('{"tasks":[%s%s]}', task, string.rep(',' .. task, batch - 1))
else
    wrk.path = '/tasks'
    wrk.body = task
end

function done(summary)
    local e = summary.errors
    io.write(string.format('BENCH %d %.6f %d\n', summary.requests, summary.duration / 1e6,
        e.status + e.connect + e.read + e.write + e.timeout))
end
