# Shared by the scripts of this folder: a redis-server, a gateway and a receiver of their own, and a load of tasks.
# Every part is started here and ended here. To be sourced with DUEPOST_BIN set, from the top of the tree.
# shellcheck shell=bash
# shellcheck disable=SC2034 # the results are for those who source this

work=$(mktemp -d /tmp/duepost-bench-XXXXXX)
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
# Arithmetic with decimals: calc EXPRESSION DIGITS
calc() { awk "BEGIN { printf \"%.${2}f\", $1 }"; }
# A number of a flat JSON object on stdin: field NAME
field() { sed -n "s/.*\"$1\":\([-0-9.]*\).*/\1/p"; }
# Wait for a condition with a deadline: until_true SECONDS COMMAND...
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || die "not in time: $*"
        sleep 0.05
    done
}

# --- the parts --------------------------------------------------------------------------------------------------

redis() { redis-cli -s "$work/redis.sock" "$@"; }
redis_answers() { [ "$(redis ping 2>/dev/null)" = PONG ]; }
start_redis() {
    redis-server --port 0 --unixsocket "$work/redis.sock" --dir "$work" --save '' --appendonly no >"$work/redis.log" &
    pids+=($!)
    until_true 10 redis_answers
}
start_sink() {
    : >"$work/sink.port"
    "$work/sink" >"$work/sink.port" &
    pids+=($!)
    until_true 10 test -s "$work/sink.port"
    sink=http://127.0.0.1:$(cat "$work/sink.port")
}
start_gateway() { # [SETTING...]
    : >"$work/gateway.out" # not the last one's ready line
    env -u DUEPOST_BIN "$DUEPOST_BIN" serve --listen 127.0.0.1:0 --redis "unix://$work/redis.sock" \
        --allow-net 127.0.0.0/8 "$@" >"$work/gateway.out" 2>"$work/gateway.err" &
    gateway_pid=$!
    pids+=($!)
    until_true 10 grep -q '^duepost: ready on' "$work/gateway.out"
    gateway=$(sed -n 's/^duepost: ready on //p' "$work/gateway.out")
}
start_all() { # [SETTING...]
    stop_all
    start_redis
    start_sink
    start_gateway "$@"
}
report() { curl -sS --noproxy '*' "$sink/report"; }
received() { report | field count; }
has_received() { [ "$(received)" -ge "$1" ]; }
# Create tasks for so many seconds: load SECONDS WHEN; sets created, create_rate and refused.
load() {
    local line
    line=$(BENCH_URL=$sink/hook BENCH_WHEN=$2 wrk -t1 -c64 "-d${1}s" -s tests/bench/create.lua "$gateway" |
        sed -n 's/^BENCH //p')
    created=$(redis hget 'duepost{0}:totals' created)
    create_rate=$(calc "$(echo "$line" | awk '{ print $1 / $2 }')" 0)
    refused=$(echo "$line" | awk '{ print $3 }')
    [ "$refused" -eq 0 ] || say "  $refused requests failed"
}
commands() { redis info stats | tr -d '\r' | sed -n 's/^total_commands_processed://p'; }
private_kib() { awk '/^Private_Dirty:/ { print $2 }' "/proc/$gateway_pid/smaps_rollup"; }
cpu_ticks() { awk '{ print $14 + $15 }' "/proc/$gateway_pid/stat"; }

# Check what is needed and build the helper programs.
prepare() {
    local tool program
    [ -x "$DUEPOST_BIN" ] || die "no gateway at $DUEPOST_BIN: run make first"
    for tool in redis-server redis-cli redis-benchmark wrk curl; do
        command -v $tool >/dev/null || die "$tool is missing: run make deps-gates"
    done
    for program in sink steady; do
        ${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -o "$work/$program" "tests/bench/$program.c"
    done
}
