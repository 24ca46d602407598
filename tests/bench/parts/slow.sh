# Slow receivers: thousands of attempts in flight that take two seconds each, and beside them a receiver that answers
# at once and wants its tasks on time.
# shellcheck shell=bash
# shellcheck disable=SC2154 # from lib.sh

SLOW_RECEIVERS=4 # one host may have eight ninths of the slots at most
SLOW_WARM_S=5    # until as many are in flight as there will be, and the first connections are open

part_slow() {
    local i due rate=$((SLOW_IN_FLIGHT / 2 / SLOW_RECEIVERS)) in_flight=0 slow=()
    start_all --concurrency $((SLOW_IN_FLIGHT * 6 / 5))
    "$work/steady" "${gateway##*:}" "$sink/hook" 500 2 >/dev/null # warm up
    until_received 10 1000
    due=$(($(now_ms) + 2000 + SLOW_IN_FLIGHT / 2 * (SLOW_S + 10) / FILL_PER_MS))
    for ((i = 0; i < SLOW_RECEIVERS; i++)); do
        start_receiver "slow$i" 2000
        slow+=("$receiver")
        fill $((rate * (SLOW_S + 10))) "$due" "$rate" "$receiver/hook"
    done
    sleep_until_ms $((due + SLOW_WARM_S * 1000))
    cpu_begin
    steady 1000 "$SLOW_S" lateness.slow.
    cpu_put slow. $(((1000 + SLOW_IN_FLIGHT / 2) * SLOW_S))
    for receiver in "${slow[@]}"; do
        in_flight=$((in_flight + $(http_get "$receiver/report" | field in_flight_max)))
    done
    put slow.in_flight "$in_flight"
    put slow.peak_kib "$(peak_kib)"
    put slow.private_kib "$(private_kib)"
    grep limits.descriptors "$work/gateway.err" >&2 || true
}
