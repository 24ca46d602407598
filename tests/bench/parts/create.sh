# Create: one task a request, batches of 100, larger payloads; beside them redis-benchmark with the same script and no
# HTTP. One after the other in each round, so that all see the same machine.
# shellcheck shell=bash
# shellcheck disable=SC2154 # from lib.sh

WHEN_LATER='"delay":3600000'

post_with_ids() { # COUNT: tasks with the ids b000000000000, ...
    local task="\"url\":\"$sink/hook\",$WHEN_LATER,\"payload\":{\"order\":4711,\"note\":\"close the unpaid order\"}}" i
    if [ "$1" -eq 1 ]; then
        printf '{"id":"b000000000000",%s' "$task" | http_get -o "$work/answer" -H 'Content-Type: application/json' \
            --data-binary @- "$gateway/tasks"
    else
        for ((i = 0; i < $1; i++)); do printf '%s{"id":"b%012d",%s' "$([ "$i" -eq 0 ] || echo ,)" $i "$task"; done |
            sed '1s/^/{"tasks":[/;$s/$/]}/' | http_get -o "$work/answer" -H 'Content-Type: application/json' \
            --data-binary @- "$gateway/tasks/batch"
    fi
}

# The very call by which the gateway creates COUNT tasks, seen through MONITOR, as bare_arguments: the ids made random
# for redis-benchmark, and bytes 0, which no argument can have, made 1. bare_tasks is how many tasks are in that call.
learn_create_call() {
    local argument monitor
    start_all
    : >"$work/monitor"
    redis-cli -s "$work/redis.sock" monitor >"$work/monitor" & # not through redis(): the job must be redis-cli itself
    monitor=$!
    pids+=("$monitor")
    until_true 5 grep -q OK "$work/monitor"
    post_with_ids "$1"
    until_true 5 grep -q '"EVALSHA".*b000000000000' "$work/monitor"
    sleep 0.1 # a long line may still be coming
    kill "$monitor"
    wait "$monitor" || true
    bare_arguments=()
    bare_tasks=0
    while IFS= read -r argument; do
        case $argument in
        *\\*)
            argument=${argument//\\\"/\"}
            argument=$(printf '%b' "${argument//\\x00/\\x01}")
            ;;
        *b[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9])
            [ "$argument" != "b${argument##*b}" ] || bare_tasks=$((bare_tasks + 1))
            argument=${argument%b*}b__rand_int__
            ;;
        esac
        bare_arguments+=("$argument")
    done < <(sed -n '/"EVALSHA".*b000000000000/{s/^[^"]*"//;s/"$//;s/" "/\n/g;p;q}' "$work/monitor")
    redis "${bare_arguments[@]}" >"$work/bare.out" 2>&1
    ! grep -q ERR "$work/bare.out" ||
        die "the create script does not take: ${bare_arguments[*]}: $(cat "$work/bare.out")"
    stop_gateway
}

# redis-benchmark prints the call as well, which holds bytes and blanks of all kinds: its rate is the seventh last of
# what stands between quotation marks and commas.
bare_create() { # COUNT CALLS NAME
    local before made
    learn_create_call "$1"
    before=$(created_count)
    redis-benchmark -s "$work/redis.sock" -c 64 -n "$2" -r 2147483647 --csv "${bare_arguments[@]}" 2>/dev/null |
        tail -n 1 | LC_ALL=C sed 's/.*","\([0-9.]*\)"\(,"[0-9.]*"\)\{6\}$/\1/' >"$work/bare.rate"
    made=$(($(created_count) - before))
    # Some of the random ids come twice.
    [ "$made" -ge $(($2 * bare_tasks * 9 / 10)) ] || die "redis-benchmark: $made tasks made by $2 calls of $bare_tasks"
    put "$3" "$(calc "$(cat "$work/bare.rate") * $bare_tasks" 0)"
}

# create_load NAME PAYLOAD_BYTES BATCH
create_load() {
    start_all
    load "$WARM_S" "$WHEN_LATER" "$2" "$3"
    cpu_begin
    load "$CREATE_S" "$WHEN_LATER" "$2" "$3"
    put "create.$1_per_s" "$create_rate"
    cpu_put "create.$1_" "$created"
}

part_create() {
    if [ "$system" = duepost ]; then
        bare_create 1 $((CREATE_S * 40000)) create.bare_per_s
        bare_create 100 $((CREATE_S * 1000)) create.bare_batch_per_s
        create_load payload_1k 1024 1
        create_load payload_16k 16384 1
    fi
    create_load single 0 1
    create_load batch 0 100
}
