# shellcheck shell=bash disable=SC2154 # work, api and receiver are e2e.sh's
# A load and its books: each task that was answered 201 must have come to the receiver at least once.

load_pids=()
round=0

# Tasks due within three seconds, one after another; what is not answered 201 is not repeated and does not count.
send() { # NUMBER
    local n=0 id code
    while [ ! -e "$work/enough" ]; do
        n=$((n + 1))
        id=t$round-$1-$n
        code=$(post "{\"id\": \"$id\", \"url\": \"http://receiver:9000/e2e\", \"delay\": $((RANDOM % 3000)),
                     \"retry\": {\"max_attempts\": 100, \"initial\": \"500ms\", \"max\": \"2s\"}}")
        echo "$code $id" >>"$work/answers.$round"
    done
}

post() { # JSON: prints the status
    curl -s -o /dev/null -w '%{http_code}' --max-time 10 --noproxy '*' "$api/tasks" \
        -H "Authorization: Bearer $DUEPOST_TOKEN" -H 'Content-Type: application/json' -d "$1"
}

get() { # PATH
    curl -s --max-time 10 --noproxy '*' "$api$1" -H "Authorization: Bearer $DUEPOST_TOKEN"
}

is_ready() { curl -sf -o /dev/null --max-time 5 --noproxy '*' "$api/readyz"; }

begin_load() {
    round=$((round + 1))
    rm -f "$work/enough"
    : >"$work/answers.$round"
    load_pids=()
    for n in 1 2 3; do
        send "$n" &
        load_pids+=($!)
    done
}

end_load() {
    touch "$work/enough"
    wait "${load_pids[@]}"
}

has_nothing_pending() {
    get /stats | grep -q '"tasks":{"scheduled":0,.*"ready":0,"delivering":0,.*"totals"'
}

received() { # the id of each webhook, as often as it came
    docker logs "$receiver" 2>/dev/null | sed -nE 's/^[^ ]+Z  ([^ ]+)  attempt .*/\1/p'
}

# What the load became, as one check.
check_load() { # NAME
    await 120 has_nothing_pending
    received >"$work/received"
    grep "^t$round-" "$work/received" | sort >"$work/came"
    sort -u "$work/came" >"$work/came.once"
    sed -n 's/^201 //p' "$work/answers.$round" | sort >"$work/accepted"
    comm -23 "$work/accepted" "$work/came.once" >"$work/lost"
    local accepted lost refused repeats
    accepted=$(wc -l <"$work/accepted")
    lost=$(wc -l <"$work/lost")
    refused=$(grep -vc '^201 ' "$work/answers.$round")
    repeats=$(($(wc -l <"$work/came") - $(wc -l <"$work/came.once")))
    [ "$accepted" -gt 0 ] && [ "$lost" -eq 0 ]
    check $? "$1" "$accepted accepted, $lost lost, $repeats repeats, $refused not accepted meanwhile" \
        "$(head -n 5 "$work/lost" | tr '\n' ' ') $(get /stats)"
}
