# shellcheck shell=bash disable=SC2154 # work is e2e.sh's
# A Docker engine for e2e.sh: the one that runs, or one of its own until the end. How containers are looked at and
# killed.

engine_pid=

start_engine() {
    docker info >/dev/null 2>&1 && return
    [ "$(id -u)" -eq 0 ] && command -v dockerd >/dev/null ||
        die "no Docker engine runs, and none can be started: make deps-docker"
    local home=${DOCKER_DATA_ROOT:-$work/engine}
    # A socket's path is short.
    export DOCKER_HOST=unix://$work/docker.sock
    dockerd --data-root "$home" --exec-root "$work/exec" --pidfile "$work/docker.pid" --host "$DOCKER_HOST" \
        >"$work/dockerd.log" 2>&1 &
    engine_pid=$!
    await 60 docker info || die "the engine does not start: $(tail -n 3 "$work/dockerd.log")"
    echo "  an engine of its own runs until the end"
}

stop_engine() {
    [ -n "$engine_pid" ] || return 0
    kill "$engine_pid" 2>/dev/null
    wait "$engine_pid" 2>/dev/null
}

# Try a command until it succeeds, for some seconds.
await() { # SECONDS COMMAND...
    local until=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] || return 1
        sleep 0.1
    done
}

# An own number in the range that the kernel does not give out by itself.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 10000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

state() { docker inspect -f "$1" "$2" 2>/dev/null; } # FORMAT CONTAINER
is_running() { [ "$(state '{{.State.Running}}' "$1")" = true ]; }
is_healthy() { [ "$(state '{{.State.Health.Status}}' "$1")" = healthy ]; }

# From outside, so that the engine does not know that it was wanted: it must start the container again by itself. Where
# the engine's processes cannot be reached the engine is asked, which then has to be asked to start it, too.
crash() { # CONTAINER
    local pid
    pid=$(state '{{.State.Pid}}' "$1")
    if [ "$(id -u)" -eq 0 ] && grep -qs "${1:0:12}" "/proc/$pid/cgroup" && kill -KILL "$pid"; then
        await 30 test ! -e "/proc/$pid"
    else
        docker kill -s KILL "$1" >/dev/null && docker start "$1" >/dev/null
    fi
}

kill_and_start() { # CONTAINER
    docker kill -s KILL "$1" >/dev/null && sleep 1 && docker start "$1" >/dev/null
}

restart() { # CONTAINER
    docker restart -t 45 "$1" >/dev/null
}
