# Lateness: an open-loop stream of tasks with random delays, at several rates.
# shellcheck shell=bash
# shellcheck disable=SC2154 # from lib.sh

part_lateness() {
    local rate
    for rate in $LATE_RATES; do
        start_all
        "$work/steady" "${gateway##*:}" "$sink/hook" 500 2 >/dev/null # warm up
        until_received 10 1000
        steady "$rate" "$LATE_S" "lateness.$rate."
    done
}
