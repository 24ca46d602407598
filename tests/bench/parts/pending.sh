# A million pending tasks: what one of them takes of Redis, and what they change: creates, lateness, the start.
# shellcheck shell=bash
# shellcheck disable=SC2154 # from lib.sh

# Due in ten hours, with a payload of 200 bytes.
fill_pending() {
    fill "$1" "$(($(now_ms) + 36000000))" 0 "$sink/hook" 200
    put pending.bytes_per_task "$(calc "$(redis_bytes) / $1" 1)"
}

# From the start of the process to its ready line.
measure_start() { # NAME
    local began
    stop_gateway
    began=$(now_ms)
    start_gateway
    put "pending.$1_ms" "$(($(now_ms) - began))"
}

part_pending() {
    if [ "$system" != duepost ]; then
        start_all
        fill_pending "$PEER_PENDING"
        return
    fi
    create_load beside_none 0 1
    start_all
    measure_start start_empty
    fill_pending "$PENDING"
    put pending.fill_per_s "$fill_rate"
    put pending.private_kib "$(private_kib)"
    load "$WARM_S" "$WHEN_LATER"
    load "$CREATE_S" "$WHEN_LATER"
    put create.beside_pending_per_s "$create_rate"
    measure_start start
    "$work/steady" "${gateway##*:}" "$sink/hook" 500 2 >/dev/null # warm up
    until_received 10 1000
    steady 1000 "$LATE_S" lateness.pending.
}
