# A burst: very many tasks due in one millisecond. How fast they are drained, the longest call in Redis meanwhile, and
# how long another client of Redis has to wait.
#
# SLOWLOG has the time by the clock, and on two cores that everything shares Redis is preempted in the middle of calls.
# So a second burst, where that is permitted, gives Redis real-time priority: its longest call is what a call takes.
# shellcheck shell=bash
# shellcheck disable=SC2154 # from lib.sh

longest_call_ms() {
    redis --json slowlog get -1 | python3 -c '
import json, sys
calls = [entry[2] for entry in json.load(sys.stdin)]
print(max(calls, default=300) / 1000)'
}

# Create tasks that are due in one millisecond; what is measured begins a second before.
prepare_burst() {
    local due=$(($(now_ms) + 3000 + BURST / FILL_PER_MS))
    start_all
    warm_up
    fill "$BURST" "$due" 0
    sleep_until_ms $((due - 1000))
    redis config set slowlog-log-slower-than 300 slowlog-max-len 100000 >/dev/null
    redis slowlog reset >/dev/null
}

burst_as_it_is() {
    local ping preempted
    prepare_burst
    "$work/ping" "$work/redis.sock" 120 >"$work/ping.out" &
    ping=$!
    preempted=$(redis_preempted)
    cpu_begin
    until_received 60 "$BURST"
    cpu_put burst. "$BURST"
    put burst.preempted "$(($(redis_preempted) - preempted))"
    kill $ping
    wait $ping || true
    put_deliveries burst.
    put_fields burst.ping_ p50 p99 max <"$work/ping.out"
    put burst.longest_call_ms "$(longest_call_ms)"
}

burst_beside_a_redis_that_never_waits() {
    prepare_burst
    chrt -f -p 1 "$redis_pid" 2>/dev/null || return 0
    until_received 60 "$BURST"
    put burst.longest_call_alone_ms "$(longest_call_ms)"
}

part_burst() {
    burst_as_it_is
    burst_beside_a_redis_that_never_waits
}
