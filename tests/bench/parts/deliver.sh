# Deliver: a backlog that is due at one moment, tasks that are due one after the other at a steady rate, and beside
# them libcurl alone against the same receiver.
# shellcheck shell=bash
# shellcheck disable=SC2154 # from lib.sh

# put_deliveries PREFIX: what the receiver saw of them
put_deliveries() {
    local seen
    seen=$(report)
    put "${1}per_s" "$(calc "$(echo "$seen" | field count) / $(echo "$seen" | field span_s)" 0)"
    echo "$seen" | put_fields "$1" early repeats
}

deliver_bare() {
    local threads
    stop_all
    start_sink
    for threads in 1 2; do
        "$work/bare" "$sink/hook" 20000 $threads "$BARE_IN_FLIGHT" >/dev/null
        put "deliver.bare_${threads}_threads_per_s" \
            "$("$work/bare" "$sink/hook" "$BACKLOG" $threads "$BARE_IN_FLIGHT" | field per_s)"
    done
}

deliver_backlog() {
    local due
    start_all
    warm_up
    due=$(($(now_ms) + 2000 + BACKLOG / FILL_PER_MS))
    fill "$BACKLOG" "$due" 0
    [ "$(now_ms)" -lt "$due" ] || say "  $system: the backlog was due before it was complete: its rate is too low"
    cpu_begin
    until_received 120 "$BACKLOG"
    cpu_put deliver.backlog_ "$BACKLOG"
    put_deliveries deliver.backlog_
}

deliver_steady() {
    local count=$((DELIVER_STEADY_RATE * DELIVER_STEADY_S))
    start_all
    warm_up
    fill "$count" "$(($(now_ms) + 1000 + count / FILL_PER_MS))" "$DELIVER_STEADY_RATE"
    cpu_begin
    until_received 120 "$count"
    cpu_put deliver.steady_ "$count"
    put_deliveries deliver.steady_
    report | put_fields deliver.steady_ p50 p99 p999
}

part_deliver() {
    if [ "$system" = duepost ]; then
        deliver_bare
        deliver_steady
    fi
    deliver_backlog
}
