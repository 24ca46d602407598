# End to end: create and deliver at once. The rate is what was delivered while the load lasted and until the last task
# had arrived; the gateway's memory before and after shows whether it grows.
# shellcheck shell=bash
# shellcheck disable=SC2154 # from lib.sh

part_e2e() {
    local seconds=$SUSTAIN_S seen
    [ "$system" = duepost ] || seconds=$PEER_SUSTAIN_S
    start_all
    warm_up
    [ "$system" != duepost ] || put e2e.before_kib "$(private_kib)"
    cpu_begin
    load "$seconds" ''
    put e2e.create_per_s "$create_rate"
    put e2e.tasks "$created"
    until_received 300 "$created"
    cpu_put e2e. "$created"
    seen=$(report)
    put e2e.per_s "$(calc "$(echo "$seen" | field count) / $(echo "$seen" | field span_s)" 0)"
    put e2e.repeats "$(echo "$seen" | field repeats)"
    [ "$system" = duepost ] || return 0
    sleep 2
    put e2e.after_kib "$(private_kib)"
}
