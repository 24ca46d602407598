#!/usr/bin/env bash
# `make bench`: how fast this machine creates and delivers tasks, and how late they are. See tests/bench/README.md.
#
# Every part has a fresh redis-server (unix socket, no persistence), a fresh gateway and a fresh receiver, all of them
# started here and ended here. The seconds of each part can be set: CREATE_S, LOAD_S, SUSTAIN_S, STEADY_S, IDLE_S.
set -euo pipefail
cd "$(dirname "$0")/../.."

DUEPOST_BIN=${DUEPOST_BIN:-build/release/duepost}
CREATE_S=${CREATE_S:-4}
CREATE_ROUNDS=${CREATE_ROUNDS:-3}
LOAD_S=${LOAD_S:-4}
SUSTAIN_S=${SUSTAIN_S:-70}
STEADY_S=${STEADY_S:-25}
STEADY_RATE=${STEADY_RATE:-1000}
IDLE_S=${IDLE_S:-5}

. tests/bench/parts.sh

# --- what is measured -------------------------------------------------------------------------------------------

measure_idle() {
    start_all
    local before ticks
    sleep 2
    before=$(commands)
    ticks=$(cpu_ticks)
    sleep "$IDLE_S"
    # The two looks at INFO are not the gateway's.
    idle_commands=$(calc "($(commands) - $before - 1) / $IDLE_S" 1)
    idle_cpu=$(calc "($(cpu_ticks) - $ticks) * 100 / $(getconf CLK_TCK) / $IDLE_S" 2)
    idle_kib=$(private_kib)
}

# The very call by which the gateway creates a task, seen through MONITOR, as bare_arguments: the id made random for
# redis-benchmark, and the specification (the one argument that is not plain text) replaced by letters of the same size.
learn_create_call() {
    local id=b000000000000 argument
    : >"$work/monitor"
    redis-cli -s "$work/redis.sock" monitor >"$work/monitor" & # not through redis(): the job must be redis-cli itself
    local monitor=$!
    pids+=("$monitor")
    until_true 5 grep -q OK "$work/monitor"
    curl -sS --noproxy '*' -o "$work/answer" -H 'Content-Type: application/json' "$gateway/tasks" -d \
        "{\"id\":\"$id\",\"url\":\"$sink/hook\",\"delay\":3600000,\"payload\":{\"order\":4711,\"note\":\"close the unpaid order\"}}"
    until_true 5 grep -q "\"EVALSHA\".*$id" "$work/monitor"
    kill "$monitor"
    wait "$monitor" || true
    bare_arguments=()
    while IFS= read -r argument; do
        case $argument in
        *\\*) argument=$(printf "%$(printf '%b' "$argument" | wc -c)s" '' | tr ' ' x) ;;
        *$id) argument=${argument%"$id"}b__rand_int__ ;;
        esac
        bare_arguments+=("$argument")
    done < <(sed -n "/\"EVALSHA\".*$id/{s/^[^\"]*\"//;s/\"\$//;s/\" \"/\\n/g;p;q}" "$work/monitor")
    redis "${bare_arguments[@]}" >"$work/bare.out" 2>&1
    ! grep -q ERR "$work/bare.out" || die "the create script does not take: ${bare_arguments[*]}: $(cat "$work/bare.out")"
}

# One round of each, one after the other, so that both see the same machine.
create_round() {
    start_all
    learn_create_call
    kill "$gateway_pid"
    wait "$gateway_pid"
    redis-benchmark -s "$work/redis.sock" -c 64 -n $((CREATE_S * 40000)) -r 1000000000000 --csv \
        "${bare_arguments[@]}" 2>/dev/null | tr -d '"' | awk -F, 'END { printf "%.0f\n", $2 }' >>"$work/bare_rates"
    start_all
    load "$CREATE_S" '"delay":3600000'
    echo "$create_rate" >>"$work/create_rates"
    record_bytes=$(redis info memory | tr -d '\r' | awk -F: -v n="$created" \
        '$1 == "used_memory" { used = $2 } $1 == "used_memory_startup" { used -= $2 } END { printf "%.0f", used / n }')
}
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
measure_create() {
    local round
    for ((round = 0; round < CREATE_ROUNDS; round++)); do create_round; done
    bare_rate=$(median "$work/bare_rates")
    create_only_rate=$(median "$work/create_rates")
}

measure_backlog() {
    local due r
    start_all
    due=$(($(date +%s%3N) + (LOAD_S + 3) * 1000))
    load "$LOAD_S" "\"run_at\":$due"
    until_true 60 has_received "$created"
    r=$(report)
    backlog_count=$created
    backlog_rate=$(calc "$(echo "$r" | field count) / $(echo "$r" | field span_s)" 0)
    backlog_repeats=$(echo "$r" | field repeats)
    backlog_early=$(echo "$r" | field early)
}

# Create and deliver at once. The rate is what was delivered while the load lasted and until the last had arrived.
measure_sustained() {
    local r
    start_all
    load 5 ''
    until_true 60 has_received "$created"
    memory_before_kib=$(private_kib)
    curl -sS --noproxy '*' "$sink/reset" >/dev/null
    local before=$created
    load "$SUSTAIN_S" ''
    sustained_create_rate=$create_rate
    sustained_count=$((created - before))
    until_true 120 has_received "$sustained_count"
    r=$(report)
    sustained_rate=$(calc "$(echo "$r" | field count) / $(echo "$r" | field span_s)" 0)
    sustained_repeats=$(echo "$r" | field repeats)
    sleep 2
    memory_after_kib=$(private_kib)
}

measure_lateness() {
    start_all
    "$work/steady" "${gateway##*:}" "$sink/hook" 500 2 >/dev/null # warm up
    until_true 10 has_received 1000
    curl -sS --noproxy '*' "$sink/reset" >/dev/null
    steady=$("$work/steady" "${gateway##*:}" "$sink/hook" "$STEADY_RATE" "$STEADY_S")
    until_true 20 has_received "$(echo "$steady" | field accepted)"
    late=$(report)
}

# --- the run ----------------------------------------------------------------------------------------------------

prepare
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
kernel=$(uname -sr)
redis_version=$(redis-server --version | sed 's/.*v=\([0-9.]*\).*/\1/')
version=$(env -u DUEPOST_BIN "$DUEPOST_BIN" --version)
wrk_version=$( (wrk -v 2>&1 || true) | sed -n '1s/^wrk \([^ ]*\).*/\1/p')
say "machine   ${cpu:-unknown}, $(nproc) cores shared by client, gateway, Redis and receiver; $kernel"
say "load      $(cut -d' ' -f1-3 /proc/loadavg) before the start"
say "versions  $version, Redis $redis_version, wrk $wrk_version"
say ""

measure_idle
measure_create
measure_backlog
measure_sustained
measure_lateness
stop_all

row() { printf '%-44s %14s   %s\n' "$1" "$2" "$3"; }
row "what" "reached" "goal"
row "create, one a request" "$create_only_rate /s" "30000 /s"
row "  redis-benchmark, same script, no HTTP" "$bare_rate /s" ""
row "  share of it" "$(calc "$create_only_rate / $bare_rate" 2)" "0.70"
row "deliver a backlog of $backlog_count" "$backlog_rate /s" "15000 /s"
row "create and deliver at once, $sustained_count tasks" "$sustained_rate /s" "12000 /s"
row "lateness at $STEADY_RATE/s: p50" "$(echo "$late" | field p50) ms" "1 ms"
row "  p99" "$(echo "$late" | field p99) ms" "5 ms"
row "  p99.9, worst" "$(echo "$late" | field p999), $(echo "$late" | field max) ms" ""
row "  early" "$(echo "$late" | field early)" "0"
row "  the sender itself was behind by at most" "$(echo "$steady" | field behind_ms) ms" "near 0, or the machine is busy"
row "repeats (backlog, at once, steady)" "$backlog_repeats, $sustained_repeats, $(echo "$late" | field repeats)" "0"
row "gateway memory when idle (Private_Dirty)" "$idle_kib KiB" "10240 KiB"
row "  before and after $sustained_count tasks" "$memory_before_kib, $memory_after_kib KiB" "no growth"
row "Redis commands when idle" "$idle_commands /s" "near 0"
row "gateway CPU when idle" "$idle_cpu %" ""
row "Redis memory a pending task" "$record_bytes B" ""
say ""
printf '{"machine":"%s","cores":%d,"kernel":"%s","duepost":"%s","redis":"%s","create_per_s":%s,"bare_create_per_s":%s,' \
    "$cpu" "$(nproc)" "$kernel" "$version" "$redis_version" "$create_only_rate" "$bare_rate"
printf '"backlog_per_s":%s,"backlog_tasks":%s,"backlog_early":%s,"backlog_repeats":%s,' \
    "$backlog_rate" "$backlog_count" "$backlog_early" "$backlog_repeats"
printf '"sustained_per_s":%s,"sustained_create_per_s":%s,"sustained_tasks":%s,"sustained_repeats":%s,"lateness_ms":%s,"sender":%s,' \
    "$sustained_rate" "$sustained_create_rate" "$sustained_count" "$sustained_repeats" "$late" \
    "$steady"
printf '"idle_kib":%s,"memory_before_kib":%s,"memory_after_kib":%s,"idle_commands_per_s":%s,"idle_cpu_percent":%s,' \
    "$idle_kib" "$memory_before_kib" "$memory_after_kib" "$idle_commands" "$idle_cpu"
printf '"redis_bytes_per_task":%s}\n' "$record_bytes"
