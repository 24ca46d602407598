-- luacheck: globals wrk done
-- For wrk: POST /tasks without an id, about 110 bytes. BENCH_URL is the receiver, BENCH_WHEN a member such as
-- "delay":3600000 (or empty: now). At the end one line: BENCH requests seconds failures.
local when = os.getenv('BENCH_WHEN') or ''
if when ~= '' then when = when .. ',' end

wrk.method = 'POST'
wrk.path = '/tasks'
wrk.headers['Content-Type'] = 'application/json'
wrk.body = string.format('{"url":"%s",%s"payload":{"order":4711,"note":"close the unpaid order"}}',
    os.getenv('BENCH_URL'), when)

function done(summary)
    local e = summary.errors
    io.write(string.format('BENCH %d %.6f %d\n', summary.requests, summary.duration / 1e6,
        e.status + e.connect + e.read + e.write + e.timeout))
end
