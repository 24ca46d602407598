# Shared by the scripts of this folder: a redis-server, a system that is measured (the gateway, or a peer), receivers
# of their own, and a load of tasks. Everything is started here and ended here. To be sourced with DUEPOST_BIN set, from
# the top of the tree.
# shellcheck shell=bash
# shellcheck disable=SC2034 # the results are for those who source this

work=$(mktemp -d /tmp/duepost-bench-XXXXXX)
samples=$work/samples # lines "NAME VALUE", one for each round
: >"$samples"
pids=()
stop_all() {
    local pid
    for pid in ${pids[@]+"${pids[@]}"}; do kill "$pid" 2>/dev/null || true; done
    for pid in ${pids[@]+"${pids[@]}"}; do wait "$pid" 2>/dev/null || true; done
    pids=()
}
trap 'stop_all; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

say() { printf '%s\n' "$*"; }
die() { say "bench: $*" >&2; exit 1; }
# Keep a figure: put NAME VALUE; it belongs to the system that is measured.
put() { printf '%s.%s %s\n' "$system" "$1" "${2:-0}" >>"$samples"; }
# Keep figures of a flat JSON object on stdin: put_fields PREFIX FIELD...
put_fields() {
    local json prefix=$1 name
    json=$(cat)
    shift
    for name in "$@"; do put "$prefix$name" "$(echo "$json" | field "$name")"; done
}
# Arithmetic with decimals: calc EXPRESSION DIGITS
calc() { awk "BEGIN { printf \"%.${2}f\", $1 }"; }
# A number of a flat JSON object on stdin: field NAME
field() { sed -n "s/.*\"$1\":\([-0-9.]*\).*/\1/p"; }
now_ms() { date +%s%3N; }
sleep_until_ms() {
    local left=$(($1 - $(now_ms)))
    [ $left -le 0 ] || sleep "$(calc "$left / 1000" 3)"
}
# Wait for a condition with a deadline: until_true SECONDS COMMAND...
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || die "not in time: $*"
        sleep 0.02
    done
}
http_get() { curl -sS --noproxy '*' "$@"; }

# --- what is started --------------------------------------------------------------------------------------------

redis() { redis-cli -s "$work/redis.sock" "$@"; }
redis_answers() { [ "$(redis ping 2>/dev/null)" = PONG ]; }
redis_info() { redis info "$1" | tr -d '\r' | sed -n "s/^$2://p"; } # SECTION FIELD
start_redis() {
    local own=()
    [ "$system" != duepost ] || own=(--stream-node-max-entries 16) # as README.md advises
    redis-server --port 0 --unixsocket "$work/redis.sock" --dir "$work" --save '' --appendonly no \
        ${own[@]+"${own[@]}"} >"$work/redis.log" &
    redis_pid=$!
    pids+=($!)
    until_true 10 redis_answers
}
start_receiver() { # NAME [DELAY_MS]; its address is then in $receiver
    : >"$work/$1.port"
    "$work/sink" ${2:+"$2"} >"$work/$1.port" &
    pids+=($!)
    until_true 10 test -s "$work/$1.port"
    receiver=http://127.0.0.1:$(cat "$work/$1.port")
}
start_sink() {
    start_receiver sink
    sink=$receiver
}
start_gateway() { # [SETTING...]
    : >"$work/gateway.out" # not the last one's ready line
    env -u DUEPOST_BIN "$DUEPOST_BIN" serve --listen 127.0.0.1:0 --redis "unix://$work/redis.sock" \
        --allow-net 127.0.0.0/8 "$@" >"$work/gateway.out" 2>"$work/gateway.err" &
    gateway_pid=$!
    pids+=($!)
    until_true 60 grep -q '^duepost: ready on' "$work/gateway.out"
    gateway=$(sed -n 's/^duepost: ready on //p' "$work/gateway.out")
}
start_all() { # [SETTING...]
    stop_all
    start_redis
    start_sink
    if [ "$system" = duepost ]; then start_gateway "$@"; else start_peer; fi
}
stop_gateway() {
    kill "$gateway_pid"
    wait "$gateway_pid" || true
}
report() { http_get "$sink/report"; }
reset_sink() { http_get "$sink/reset" >/dev/null; }
# Wait until so many webhooks have come: until_received SECONDS COUNT
until_received() { http_get --max-time "$1" "$sink/when/$2" >/dev/null || die "not in time: $2 webhooks"; }
# How many tasks the system has ever taken.
created_count() {
    case $system in
    duepost) redis hget 'duepost{0}:totals' created ;;
    bullmq) redis get bull:hooks:id ;;
    bee-queue) redis get bq:hooks:id ;;
    esac
}

# --- loads ------------------------------------------------------------------------------------------------------

# Create tasks one a request (or BATCH a request) for so many seconds: load SECONDS WHEN [PAYLOAD_BYTES [BATCH]].
# Sets created (of this load), create_rate and refused.
load() {
    local line batch=${4:-1} before answered
    before=$(created_count)
    line=$(BENCH_URL=$sink/hook BENCH_WHEN=$2 BENCH_PAYLOAD=${3:-0} BENCH_BATCH=$batch \
        wrk -t1 -c64 "-d${1}s" -s tests/bench/create.lua "$gateway" | sed -n 's/^BENCH //p')
    created=$(($(created_count) - ${before:-0}))
    answered=$(($(echo "$line" | cut -d' ' -f1) * batch))
    create_rate=$(calc "$answered / $(echo "$line" | cut -d' ' -f2)" 0)
    refused=$(echo "$line" | cut -d' ' -f3)
    [ "$refused" -eq 0 ] || say "  $system: $refused requests failed"
    [ "$created" -ge "$answered" ] || die "$system: $answered tasks answered, $created created"
}
# Warm up with tasks that are delivered at once.
warm_up() {
    load "$WARM_S" ''
    until_received 120 "$created"
    reset_sink
}
# Put tasks in by batches: fill COUNT FIRST_DUE_MS PER_S [URL [PAYLOAD_BYTES]]
fill() {
    local answer
    answer=$("$work/fill" "$gateway" "${4:-$sink/hook}" "$1" "$2" "$3" "${5:-45}")
    [ "$(echo "$answer" | field failed)" -eq 0 ] || die "$system: fill: $answer"
    fill_rate=$(echo "$answer" | field per_s)
}
# An open-loop stream, and how late it arrived: steady RATE SECONDS PREFIX
steady() {
    local sent
    reset_sink
    sent=$("$work/steady" "${gateway##*:}" "$sink/hook" "$1" "$2")
    until_received 60 "$(echo "$sent" | field accepted)"
    echo "$sent" | put_fields "$3" failed behind_ms post_p50 post_p99
    report | put_fields "$3" p50 p99 p999 max early repeats
}

# --- looks at the machine ---------------------------------------------------------------------------------------

private_kib() { awk '/^Private_Dirty:/ { print $2 }' "/proc/$gateway_pid/smaps_rollup"; }
peak_kib() { awk '/^VmHWM:/ { print $2 }' "/proc/$gateway_pid/status"; }
# CPU time in us of all threads of a process; it does not depend on who else uses the machine.
cpu_us() { cat /proc/"$1"/task/*/schedstat | awk '{ ns += $1 } END { printf "%.0f\n", ns / 1000 }'; }
# CPU time a task of the gateway and of Redis, from cpu_begin to cpu_put PREFIX TASKS; nothing for peers.
cpu_begin() {
    [ "$system" = duepost ] || return 0
    gateway_us=$(cpu_us "$gateway_pid")
    redis_us=$(cpu_us "$redis_pid")
}
cpu_put() {
    [ "$system" = duepost ] || return 0
    put "$1gateway_us_per_task" "$(calc "($(cpu_us "$gateway_pid") - $gateway_us) / $2" 2)"
    put "$1redis_us_per_task" "$(calc "($(cpu_us "$redis_pid") - $redis_us) / $2" 2)"
}
# How often Redis had to give its core to others.
redis_preempted() { awk '/^nonvoluntary_ctxt_switches:/ { print $2 }' "/proc/$redis_pid/status"; }
# Redis memory above that of an empty server.
redis_bytes() { echo $(($(redis_info memory used_memory) - $(redis_info memory used_memory_startup))); }

# --- before the start -------------------------------------------------------------------------------------------

# Check what is needed and build the helper programs.
prepare() {
    local tool program
    [ -x "$DUEPOST_BIN" ] || die "no gateway at $DUEPOST_BIN: run make first"
    for tool in redis-server redis-cli redis-benchmark wrk curl python3; do
        command -v $tool >/dev/null || die "$tool is missing: run make deps-gates"
    done
    for program in sink steady fill ping bare; do
        ${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -pthread -o "$work/$program" "tests/bench/$program.c" -lcurl
    done
    system=duepost
}
