#!/bin/sh
# Run one test program for run_tests.sh: run_test.sh BUILD PROGRAM
#
# Prints a line with its counts, behind its whole output when something failed, and leaves "PASSED FAILED" in a file of
# test-results. A program that is missing, crashes, hangs or reports no count is one failure.
set -u
build=$1 program=$2
name=${program##*/tests/}
flat=$(echo "$name" | tr / -)
log=$build/test-logs/$flat.log
report=$build/test-reports/$flat

# Seconds for one test, by suite; a whole program has ten times that.
case $name in
unit/*) limit=30 ;;
integration/*) limit=60 ;;
*) limit=120 ;;
esac
# ThreadSanitizer's address layout does not survive a kernel that randomises much.
no_aslr=
case $DUEPOST_BIN in
*/tsan/*) setarch "$(uname -m)" -R true 2>/dev/null && no_aslr="setarch $(uname -m) -R" ;;
esac
set -- --timeout "$limit"
case $name in tsan/*) set -- ;; esac

began=$(date +%s)
ASAN_OPTIONS="log_path=$report:${ASAN_OPTIONS:-}" \
    UBSAN_OPTIONS="print_stacktrace=1:log_path=$report:${UBSAN_OPTIONS:-}" \
    TSAN_OPTIONS="log_path=$report:${TSAN_OPTIONS:-}" \
    timeout -k 10 $((limit * 10)) $no_aslr "$program" "$@" >"$log" 2>&1 </dev/null
rc=$?

# Criterion's synthesis, or the line of a plain program.
# shellcheck disable=SC2046
set -- $(sed -n -e 's/.*Synthesis: Tested: \([0-9]*\) | Passing: \([0-9]*\) .*/\1 \2/p' \
    -e 's/^\([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2 plain/p' "$log" |
    tail -n 1 | awk '$3 == "plain" { print $1, $2; next } { print $2, $1 - $2 }')
good=${1:-0} bad=${2:-0}
why=
[ "$rc" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1 why=" (exit status $rc)"
[ $((good + bad)) -eq 0 ] && bad=1 why=" (no test ran)"
line=$(printf '%-32s %4d passed, %d failed%s  %ds' "$name" "$good" "$bad" "$why" $(($(date +%s) - began)))
# In one write, since others may print at the same time.
if [ "$bad" -ne 0 ]; then
    printf '%s\n%s\n' "$(cat "$log")" "$line"
else
    printf '%s\n' "$line"
fi
echo "$good $bad" >"$build/test-results/$flat"
