#!/bin/sh
# Run libFuzzer programs, two at a time, each on its corpus and then for some seconds: run.sh SECONDS PROGRAM...
# tests/fuzz/fuzz_x.c has its seeds in tests/fuzz/corpus/x/. A crashing input is kept beside the program.
set -u
seconds=$1
shift
results=$(mktemp)
trap 'rm -f "$results"' EXIT

fuzz() { # PROGRAM: leaves a line in $results
    name=${1##*/fuzz_}
    seeds=tests/fuzz/corpus/$name
    found=${1%/*}/found/$name
    log=${1%/*}/$name.log
    mkdir -p "$found"
    [ -d "$seeds" ] || seeds=
    if "$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="${1%/*}/$name-" "$found" $seeds >"$log" 2>&1 </dev/null; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "fuzz/$name: $runs inputs without a fault"
        echo passed >>"$results"
    else
        printf '%s\nfuzz/%s: failed\n' "$(tail -n 60 "$log")" "$name"
        echo failed >>"$results"
    fi
}

started=0
for program in "$@"; do
    fuzz "$program" &
    started=$((started + 1))
    [ $((started % 2)) -ne 0 ] || wait
done
wait
passed=$(grep -c passed "$results")
echo "$passed passed, $(($# - passed)) failed"
[ "$passed" -eq $# ] && [ $# -gt 0 ]
