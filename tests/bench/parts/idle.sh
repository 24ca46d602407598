# Idle: what the gateway costs when there is nothing to do.
# shellcheck shell=bash
# shellcheck disable=SC2154 # from lib.sh

part_idle() {
    local commands cpu
    start_all
    sleep 2
    commands=$(redis_info stats total_commands_processed)
    cpu=$(cpu_us "$gateway_pid")
    sleep "$IDLE_S"
    # The second look at INFO is not the gateway's.
    put idle.commands_per_s "$(calc "($(redis_info stats total_commands_processed) - $commands - 1) / $IDLE_S" 2)"
    put idle.cpu_percent "$(calc "($(cpu_us "$gateway_pid") - $cpu) / 10000 / $IDLE_S" 3)"
    put idle.private_kib "$(private_kib)"
}
