#!/bin/sh
# Run libFuzzer programs, each on its corpus and then for some seconds: run.sh SECONDS PROGRAM...
# tests/fuzz/fuzz_x.c has its seeds in tests/fuzz/corpus/x/. A crashing input is kept beside the program.
set -u
seconds=$1
shift
passed=0
failed=0
for program in "$@"; do
    name=${program##*/fuzz_}
    seeds=tests/fuzz/corpus/$name
    found=${program%/*}/found/$name
    log=${program%/*}/$name.log
    mkdir -p "$found"
    [ -d "$seeds" ] || seeds=
    if "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="${program%/*}/$name-" "$found" $seeds >"$log" 2>&1 </dev/null; then
        passed=$((passed + 1))
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "fuzz/$name: $runs inputs without a fault"
    else
        failed=$((failed + 1))
        tail -n 60 "$log"
        echo "fuzz/$name: failed"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
