#!/bin/sh
# Run test programs and count: run_tests.sh BUILD PROGRAM...
#
# Ends with the plain line "N passed, N failed" and exits 1 when anything failed. A program that is missing, crashes,
# hangs or reports no count is one failure. LeakSanitizer reports only after Criterion has counted a test as passed,
# so sanitizers write to files, and every such file is a failure.
set -u
build=$1
shift
mkdir -p "$build"
build=$(cd "$build" && pwd)
logs=$build/test-logs
reports=$build/test-reports
rm -rf "$logs" "$reports"
mkdir -p "$logs" "$reports"
export DUEPOST_BIN="${DUEPOST_BIN:-$build/duepost}"

# Seconds for one test, by suite; a whole program has ten times that.
limit_of() {
    case $1 in
    unit/*) echo 30 ;;
    integration/*) echo 60 ;;
    *) echo 120 ;;
    esac
}

# Print "PASSED FAILED" from a log: Criterion's synthesis, or the line of a plain program.
counts_of() {
    sed -n -e 's/.*Synthesis: Tested: \([0-9]*\) | Passing: \([0-9]*\) .*/\1 \2/p' \
        -e 's/^\([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2 plain/p' "$1" |
        tail -n 1 | awk '$3 == "plain" { print $1, $2; next } { print $2, $1 - $2 }'
}

# Run one program: run_one PROGRAM NAME LOG
run_one() {
    limit=$(limit_of "$2")
    set -- "$1" "$2" "$3" --timeout "$limit"
    case $2 in tsan/*) set -- "$1" "$2" "$3" ;; esac
    program=$1 name=$2 log=$3
    shift 3
    report=$reports/$(echo "$name" | tr / -)
    ASAN_OPTIONS="log_path=$report:${ASAN_OPTIONS:-}" \
        UBSAN_OPTIONS="print_stacktrace=1:log_path=$report:${UBSAN_OPTIONS:-}" \
        TSAN_OPTIONS="log_path=$report:${TSAN_OPTIONS:-}" \
        timeout -k 10 $((limit * 10)) $no_aslr "$program" "$@" >"$log" 2>&1 </dev/null
}

# ThreadSanitizer's address layout does not survive a kernel that randomises much.
no_aslr=
case $DUEPOST_BIN in
*/tsan/*) setarch "$(uname -m)" -R true 2>/dev/null && no_aslr="setarch $(uname -m) -R" ;;
esac

passed=0
failed=0
for program in "$@"; do
    name=${program##*/tests/}
    log=$logs/$(echo "$name" | tr / -).log
    began=$(date +%s)
    run_one "$program" "$name" "$log"
    rc=$?
    # shellcheck disable=SC2046
    set -- $(counts_of "$log")
    good=${1:-0} bad=${2:-0}
    why=
    [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1 why=" (exit status $rc)"
    [ $((good + bad)) -eq 0 ] && bad=1 why=" (no test ran)"
    [ "$bad" -ne 0 ] && cat "$log"
    printf '%-32s %4d passed, %d failed%s  %ds\n' "$name" "$good" "$bad" "$why" $(($(date +%s) - began))
    passed=$((passed + good))
    failed=$((failed + bad))
done
for report in "$reports"/*; do
    [ -e "$report" ] || continue
    cat "$report"
    echo "sanitizer report: $report"
    failed=$((failed + 1))
done
if [ $((passed + failed)) -eq 0 ]; then
    echo "no tests were given"
    failed=1
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
