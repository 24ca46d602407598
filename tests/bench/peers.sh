# The peers: install them at their pinned versions, and find out with how many processes each is fastest here.
# To be sourced after lib.sh and the parts.
# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034 # shared with lib.sh

PEER_SETUPS=("1 1" "2 1" "1 2" "2 2") # processes that take requests, processes that deliver
declare -A setup_of                   # "SYSTEM PART": the fastest of these

# Into a folder outside of the sources: prepare_peers FOLDER
prepare_peers() {
    command -v npm >/dev/null || die "npm is missing: run make deps-gates"
    mkdir -p "$1"
    peers_folder=$(cd "$1" && pwd)
    cp tests/bench/peers/*.mjs tests/bench/peers/package.json "$peers_folder"
    if ! cmp -s tests/bench/peers/package-lock.json "$peers_folder/installed.json"; then
        cp tests/bench/peers/package-lock.json "$peers_folder"
        npm ci --prefix "$peers_folder" --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
        cp "$peers_folder/package-lock.json" "$peers_folder/installed.json"
    fi
}

start_peer() {
    local setup=${setup_of["$system $part"]:-1 1}
    : >"$work/peer.port"
    (
        cd "$peers_folder" || exit 1
        export API_PROCESSES=${setup% *} WORKER_PROCESSES=${setup#* }
        exec node server.mjs "$system" "$work/redis.sock"
    ) >"$work/peer.port" 2>"$work/peer.err" &
    pids+=($!)
    until_true 20 test -s "$work/peer.port"
    gateway=http://127.0.0.1:$(cat "$work/peer.port")
}

# What the part measured last for this system.
last_rate() { sed -n "s/^$system\.$1 //p" "$samples" | tail -n 1; }

# Try every setup for a short time, and keep the fastest for each kind of work: tune_peer PART FIGURE
tune_part() {
    local setup rate best=0 fastest=${PEER_SETUPS[0]}
    part=$1
    for setup in "${PEER_SETUPS[@]}"; do
        setup_of["$system $part"]=$setup
        CREATE_S=3 BACKLOG=20000 PEER_SUSTAIN_S=4 "part_$part"
        rate=$(last_rate "$2")
        if [ "$rate" -gt "$best" ]; then
            best=$rate
            fastest=$setup
        fi
    done
    setup_of["$system $part"]=$fastest
    echo "setup_${system}_$part $fastest" >>"$work/about"
}
tune_peer() {
    say "trying numbers of processes: $system" >&2
    tune_part create create.single_per_s
    tune_part deliver deliver.backlog_per_s
    tune_part e2e e2e.per_s
    setup_of["$system lateness"]=${setup_of["$system e2e"]}
    : >"$samples" # these were not rounds
}
