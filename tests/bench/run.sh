#!/usr/bin/env bash
# `make bench` and `make bench-all`: how fast this machine creates and delivers tasks, how late they are, and how that
# compares with the limits of the machine and with peers. See tests/bench/README.md.
#
#   BENCH_PARTS    of: idle create deliver e2e lateness pending burst slow (the files of parts/)
#   BENCH_SYSTEMS  of: duepost bullmq bee-queue
#   REPEAT         rounds; the median of them is what counts
#   BENCH_OUT      folder of result.json and lateness.svg
#
# Every part has a fresh redis-server (unix socket, no persistence), a fresh system and a fresh receiver, all of them
# started here and ended here. Seconds and numbers of each part can be set, too; their names are below.
set -euo pipefail
cd "$(dirname "$0")/../.."

DUEPOST_BIN=${DUEPOST_BIN:-build/release/duepost}
BENCH_PARTS=${BENCH_PARTS:-idle create deliver e2e lateness}
BENCH_SYSTEMS=${BENCH_SYSTEMS:-duepost}
BENCH_OUT=${BENCH_OUT:-build/bench}
REPEAT=${REPEAT:-3}

# shellcheck disable=SC2034 # the parts use them
{
    WARM_S=${WARM_S:-2}
    IDLE_S=${IDLE_S:-10}
    CREATE_S=${CREATE_S:-5}
    BACKLOG=${BACKLOG:-100000}
    BARE_IN_FLIGHT=${BARE_IN_FLIGHT:-64}
    DELIVER_STEADY_RATE=${DELIVER_STEADY_RATE:-10000}
    DELIVER_STEADY_S=${DELIVER_STEADY_S:-8}
    SUSTAIN_S=${SUSTAIN_S:-30}
    PEER_SUSTAIN_S=${PEER_SUSTAIN_S:-15}
    LATE_RATES=${LATE_RATES:-100 1000 5000}
    LATE_S=${LATE_S:-20}
    PENDING=${PENDING:-1000000}
    PEER_PENDING=${PEER_PENDING:-100000}
    BURST=${BURST:-100000}
    SLOW_IN_FLIGHT=${SLOW_IN_FLIGHT:-5000}
    SLOW_S=${SLOW_S:-15}
    FILL_PER_MS=${FILL_PER_MS:-15} # tasks a ms that every system takes by batches: how far ahead a backlog is due
}

. tests/bench/lib.sh
for file in tests/bench/parts/*.sh; do
    # shellcheck source=/dev/null
    . "$file"
done
. tests/bench/peers.sh

# What only Duepost is asked for.
is_measured() { # PART SYSTEM
    case $1 in idle | burst | slow) [ "$2" = duepost ] ;; esac
}
describe() { # the run, as lines NAME VALUE
    local peer
    echo "machine $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
    echo "cores $(nproc)"
    echo "memory_kib $(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo)"
    echo "kernel $(uname -sr)"
    echo "load_before $(cut -d' ' -f1-3 /proc/loadavg)"
    echo "duepost $(env -u DUEPOST_BIN "$DUEPOST_BIN" --version | sed 's/^duepost //')"
    echo "redis $(redis-server --version | sed 's/.*v=\([0-9.]*\).*/\1/')"
    echo "wrk $( (wrk -v 2>&1 || true) | sed -n '1s/^wrk \([^ ]*\).*/\1/p')"
    echo "libcurl $(curl --version | sed -n '1s/.*libcurl\/\([^ ]*\).*/\1/p')"
    echo "repeat $REPEAT"
    [ "$BENCH_SYSTEMS" != duepost ] || return 0
    echo "node $(node --version)"
    for peer in bullmq bee-queue fastify undici ioredis; do
        echo "$peer $(sed -n "s/.*\"$peer\": *\"\([^\"]*\)\".*/\1/p" tests/bench/peers/package.json)"
    done
}

prepare
mkdir -p "$BENCH_OUT"
describe >"$work/about"
if [ "$BENCH_SYSTEMS" != duepost ]; then
    prepare_peers "$BENCH_OUT/peers"
    for system in $BENCH_SYSTEMS; do [ "$system" = duepost ] || tune_peer; done
fi
for ((round = 1; round <= REPEAT; round++)); do
    for part in $BENCH_PARTS; do
        for system in $BENCH_SYSTEMS; do
            is_measured "$part" "$system" || continue
            say "round $round of $REPEAT: $part, $system" >&2
            "part_$part"
        done
    done
done
stop_all
python3 tests/bench/report.py "$work/about" "$samples" "$BENCH_OUT/result.json"
if [[ " $BENCH_PARTS " == *" lateness "* ]]; then
    python3 tests/bench/plot.py "$BENCH_OUT/result.json" "$BENCH_OUT/lateness.svg"
fi
