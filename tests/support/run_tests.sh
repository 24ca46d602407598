#!/bin/sh
# Run test programs and count: run_tests.sh BUILD PROGRAM...
#
# Ends with the plain line "N passed, N failed" and exits 1 when anything failed. LeakSanitizer reports only after
# Criterion has counted a test as passed, so sanitizers write to files, and every such file is a failure.
#
# TEST_JOBS programs (1) run at a time. Most of the time they wait, so builds that are slow anyway, whose bounds are
# wide, take half as long with two. The chaos run is alone in any case.
set -u
build=$1
shift
mkdir -p "$build"
build=$(cd "$build" && pwd)
for folder in logs reports results; do
    rm -rf "$build/test-$folder"
    mkdir -p "$build/test-$folder"
done
export DUEPOST_BIN="${DUEPOST_BIN:-$build/duepost}"
one=$(dirname "$0")/run_test.sh

run_all() { # JOBS, programs on stdin
    xargs -r -P "$1" -n 1 sh "$one" "$build"
}
printf '%s\n' "$@" | grep -v '/chaos/' | run_all "${TEST_JOBS:-1}"
printf '%s\n' "$@" | grep '/chaos/' | run_all 1

# A program that left no result was not run to its end, which is a failure too.
count=$(find "$build/test-results" -type f | wc -l)
reports=$(find "$build/test-reports" -type f)
for report in $reports; do
    cat "$report"
    echo "sanitizer report: $report"
done
[ $# -gt 0 ] || echo "no tests were given"
find "$build/test-results" -type f -exec cat {} + |
    awk -v more=$(($# - count + $(echo "$reports" | grep -c .) + ($# == 0))) '
        { passed += $1; failed += $2 }
        END { failed += more; printf "%d passed, %d failed\n", passed, failed; exit failed > 0 }'
