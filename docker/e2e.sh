#!/bin/bash
# The images and the composed systems, end to end, on a real Docker engine: docker/e2e.sh [--clean]
#
# Builds on both Debians, lets an image run alone, and composes the systems of docker/README.md. Under a running load
# each container is killed and restarted in turn: a task that was answered 201 must come to the receiver. Containers,
# networks and volumes of the run are removed at the end; --clean removes the images that it made, too.
#
#   COMPOSE               how to call compose; `docker compose` where that works, else `docker-compose`
#   DOCKER_BUILD_OPTIONS  for `docker build`, where builds need help to reach Debian's packages
#   DEBIAN_MIRROR         for mmdebstrap, where base images have to be made
#   DOCKER_DATA_ROOT      where an engine of its own keeps its images; thrown away without
set -u
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d)
passed=0 failed=0

die() { echo "e2e.sh: $1" >&2; exit 1; }

check() { # STATUS NAME [FIGURES [WHAT WAS SEEN]]
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        printf '  ok    %s%s\n' "$2" "${3:+: $3}"
        return 0
    fi
    failed=$((failed + 1))
    printf '  FAIL  %s%s\n' "$2" "${3:+: $3}"
    [ -z "${4:-}" ] || printf '%s\n' "$4" | sed 's/^/        /'
    return 1
}

# shellcheck source=docker/e2e/engine.sh
. docker/e2e/engine.sh
# shellcheck source=docker/e2e/images.sh
. docker/e2e/images.sh
# shellcheck source=docker/e2e/load.sh
. docker/e2e/load.sh

project=duepost-e2e-$$
image=duepost-e2e
files=(-f docker-compose.yml)
system() { # compose, for the system under test
    # shellcheck disable=SC2086 # words
    ${COMPOSE:?} -p "$project" "${files[@]}" "$@"
}
as_operator() { COMPOSE="$COMPOSE -p $project ${files[*]}" "$@"; } # one of the scripts
container() { system ps -q "$1"; } # SERVICE; one line for each of its containers

# shellcheck disable=SC2154 # made is of images.sh
clean_up() {
    trap '' HUP INT TERM
    touch "$work/enough"
    drop_alone
    files=(-f docker-compose.yml -f docker/balanced.yml -f docker/monitoring.yml)
    system down -v --remove-orphans >/dev/null 2>&1
    [ -z "$clean" ] || docker rmi $image $image:trixie $image:bookworm ${made[@]+"${made[@]}"} >/dev/null 2>&1
    stop_engine
    rm -rf "$work"
}
clean=
[ "${1:-}" != --clean ] || clean=1
trap clean_up EXIT
trap 'exit 130' HUP INT TERM

# --- an image alone ---------------------------------------------------------------------------------------------

alone() { # IMAGE OPTION...: as strict as it goes
    local tag=$1
    shift
    docker run -d --name alone-$$ --read-only --cap-drop ALL --security-opt no-new-privileges \
        -e DUEPOST_TOKEN="$DUEPOST_TOKEN" -p "127.0.0.1:$port:8080" -v "alone-$$:/data" --stop-timeout 45 "$@" "$tag" \
        >/dev/null
}

has_no_zombie() { docker top alone-$$ -o pid,stat,comm >"$work/top" && ! grep -q ' Z' "$work/top"; }

drop_alone() {
    docker rm -fv alone-$$ >/dev/null 2>&1
    docker volume rm alone-$$ >/dev/null 2>&1
}

check_image() { # IMAGE
    check_alone "$1"
    drop_alone
}

check_alone() { # IMAGE
    local tag=$1 began out
    out=$(docker run --rm "$tag" --version) && [ "$out" = "duepost $(state \
        '{{index .Config.Labels "org.opencontainers.image.version"}}' "$tag")" ]
    check $? "$tag says the version of its label" "$out, $(($(state '{{.Size}}' "$tag") / 1000000)) MB"
    docker run --rm "$tag" >/dev/null 2>"$work/refused"
    [ $? -eq 78 ]
    check $? "$tag refuses to start without a token" "" "$(cat "$work/refused")"

    api=http://127.0.0.1:$port
    alone "$tag" -e DUEPOST_ALLOW_NET=127.0.0.0/8 && await 60 is_healthy alone-$$
    check $? "$tag alone, with a read-only root and no capability, becomes healthy" "" "$(docker logs alone-$$ 2>&1)" ||
        return
    [ "$(docker exec alone-$$ id -u)" = 10001 ]
    check $? "$tag runs as user 10001"
    [ "$(post '{"id": "stays", "url": "https://example.com/", "delay": "1h"}')" = 201 ]
    check $? "$tag takes a task"
    docker exec alone-$$ bash -c '(sleep 0.2 &)'
    sleep 0.5
    await 10 has_no_zombie
    check $? "$tag leaves no zombie of a process that lost its parent" "" "$(cat "$work/top")"
    docker kill -s KILL alone-$$ >/dev/null
    docker start alone-$$ >/dev/null && await 60 is_ready && get /tasks/stays | grep -q '"state":"scheduled"'
    check $? "$tag finds its task again after kill -9" "" "$(docker logs --tail 20 alone-$$ 2>&1)"
    began=$SECONDS
    docker stop alone-$$ >/dev/null
    [ "$(state '{{.State.ExitCode}}' alone-$$)" = 0 ] && [ $((SECONDS - began)) -lt 10 ]
    check $? "$tag stops with exit 0" "$((SECONDS - began)) s"
}

# --- composed ---------------------------------------------------------------------------------------------------

up() { # OTHER-FILE... SERVICE...
    files=(-f docker-compose.yml)
    while [ -e "${1:-}" ]; do
        files+=(-f "$1")
        shift
    done
    system up -d --no-build "$@" >"$work/up.log" 2>&1 && await 60 is_ready
}

down() {
    system down -v --remove-orphans >"$work/down.log" 2>&1
}

# Each in turn, while the load goes on; then everything must be well again.
fault() { # HOW SERVICE [NUMBER]
    local target
    target=$(container "$2" | sed -n "${3:-1}p")
    sleep 1
    "$1" "$target" && await 60 is_running "$target" && await 60 is_ready
    check $? "$1 $2${3:+ $3}: all is ready again" "" "$(docker logs --tail 20 "$target" 2>&1)"
}

has_webhook() { received | grep -qx "$1"; }

check_webhook() { # NAME ID
    [ "$(post "{\"id\": \"$2\", \"url\": \"http://receiver:9000/hello\", \"payload\": {\"hello\": \"world\"}}")" = 201 ] &&
        await 20 has_webhook "$2"
    check $? "$1" "$(docker logs "$receiver" 2>/dev/null | grep "  $2  " | head -n 1)" "$(system logs --tail 20 2>&1)"
}

check_system() {
    # What a newcomer does, without any setting and any image.
    local DUEPOST_TOKEN='' DUEPOST_SIGNING_SECRET='' DUEPOST_IMAGE=$image:composed
    system up -d >"$work/up.log" 2>&1 && await 60 is_ready
    check $? "one command: gateway, Redis and receiver are up" "" "$(cat "$work/up.log")" || return
    receiver=$(container receiver)
    check_webhook "a webhook is delivered" first
    docker port "$(container gateway)" >"$work/ports"
    grep -q '127\.0\.0\.1:' "$work/ports" && ! grep -qv '127\.0\.0\.1:' "$work/ports"
    check $? "the port is open to this machine only"
    await 60 is_healthy "$(container gateway)" && await 60 is_healthy "$(container redis)" &&
        await 60 is_healthy "$receiver"
    check $? "all three are healthy"
    down
    docker rmi "$DUEPOST_IMAGE" >/dev/null
}

is_live_not_ready() {
    [ "$(curl -s -o /dev/null -w '%{http_code}' --noproxy '*' "$api/healthz")" = 200 ] && ! is_ready
}

check_start_order() {
    files=(-f docker-compose.yml)
    system up -d --no-build --no-deps gateway >"$work/up.log" 2>&1
    await 30 is_live_not_ready
    check $? "a gateway without its Redis is live and not ready" "" "$(cat "$work/up.log")"
    up
    check $? "it is ready once Redis is there" "" "$(cat "$work/up.log")"
    receiver=$(container receiver)
    check_webhook "and delivers, signed" signed
    docker logs "$receiver" | grep '  signed  ' | grep -q 'signature right'
    check $? "the receiver finds the signature right"
    [ "$(DUEPOST_TOKEN=wrong post '{"url": "http://receiver:9000/"}')" = 401 ]
    check $? "a wrong token is refused"
}

check_faults() {
    begin_load
    for how in kill_and_start restart crash; do
        for service in gateway redis receiver; do
            fault $how $service
        done
    done
    end_load
    check_load "nothing lost: every container killed and restarted"
}

restore_and_wait() {
    as_operator docker/restore.sh <"$1" >"$work/restore.log" 2>&1 && await 60 is_ready
}

post_later() { # ID
    [ "$(post "{\"id\": \"$1\", \"url\": \"http://receiver:9000/\", \"delay\": \"1h\"}")" = 201 ]
}

check_backup() { # NAME
    for n in 1 2 3 4 5 6 7 8 9; do
        post_later "kept-$n"
    done
    as_operator docker/backup.sh >"$work/backup.rdb" 2>"$work/backup.log"
    post_later later
    head -c 100 "$work/backup.rdb" >"$work/cut.rdb"
    : >"$work/empty.rdb"
    for bad in cut empty; do
        ! restore_and_wait "$work/$bad.rdb" && await 60 is_ready && get /tasks/later | grep -q scheduled
        check $? "$1: a backup that is $bad changes nothing" "" "$(cat "$work/restore.log")"
    done
    restore_and_wait "$work/backup.rdb" && get /tasks/kept-9 | grep -q scheduled &&
        get /tasks/later | grep -q task_not_found && get /stats | grep -q '"tasks":{"scheduled":9,'
    check $? "$1: a backup is restored, nothing more and nothing less" "$(wc -c <"$work/backup.rdb") bytes" \
        "$(cat "$work/backup.log" "$work/restore.log"; get /stats; system logs --tail 20 redis 2>&1)"
    system restart -t 45 redis >/dev/null 2>&1
    await 60 is_ready && get /stats | grep -q '"tasks":{"scheduled":9,'
    check $? "$1: it is still there after another restart of Redis" "" "$(get /stats)"
}

check_balanced() {
    local GATEWAY_PORT='' old
    up docker/balanced.yml && [ "$(container gateway | wc -l)" -eq 3 ]
    check $? "three gateways behind a balancer are up" "" "$(system logs --tail 20 2>&1)" || return
    receiver=$(container receiver)
    begin_load
    for how in kill_and_start restart crash; do
        for n in 1 2 3; do
            fault $how gateway $n
        done
        fault $how balancer
        fault $how redis
        fault $how receiver
    done
    end_load
    check_load "nothing lost: every container of the balanced system killed and restarted"
    begin_load
    system up -d --no-build --scale gateway=1 >"$work/up.log" 2>&1
    system up -d --no-build --scale gateway=4 >>"$work/up.log" 2>&1
    sleep 2
    end_load
    [ "$(container gateway | wc -l)" -eq 4 ]
    check $? "gateways go and come: one, then four" "" "$(cat "$work/up.log")"
    check_load "nothing lost: fewer gateways, then more"
    old=$(container gateway | sort)
    begin_load
    as_operator docker/roll.sh >"$work/roll.log" 2>&1
    check $? "all gateways are replaced by new ones" "" "$(cat "$work/roll.log")"
    end_load
    [ "$(container gateway | wc -l)" -eq 4 ] && [ "$(container gateway | sort | comm -12 - <(echo "$old"))" = "" ]
    check $? "none of the old ones is left, and as many run as before" "" "$(system ps)"
    check_load "nothing lost: gateways replaced"
    down
}

check_valkey() {
    up docker/valkey.yml
    check $? "with Valkey instead of Redis" "" "$(system logs --tail 20 2>&1)" || return
    receiver=$(container receiver)
    check_webhook "a webhook is delivered with Valkey" valkey
    begin_load
    fault kill_and_start redis
    fault crash redis
    end_load
    check_load "nothing lost: Valkey killed and restarted"
    check_backup Valkey
    down
}

is_scraped() { curl -s --noproxy '*' "http://127.0.0.1:$PROMETHEUS_PORT/api/v1/targets" | grep -q '"health":"up"'; }

# Grafana is left out: Debian has no package of it.
check_monitoring() { # NAME
    up docker/monitoring.yml redis gateway receiver prometheus
    await 60 is_scraped
    check $? "Prometheus reads $1" "" "$(system logs --tail 20 prometheus)"
    down
}

# --- the run ----------------------------------------------------------------------------------------------------

start_engine
if [ -z "${COMPOSE:-}" ]; then
    COMPOSE=docker-compose
    ! docker compose version >/dev/null 2>&1 || COMPOSE="docker compose"
fi
$COMPOSE version >/dev/null 2>&1 || die "compose is missing: make deps-docker"
echo "  $($COMPOSE version 2>&1 | head -n 1), engine $(docker version -f '{{.Server.Version}}')"
need_images
for debian in trixie bookworm; do
    tag=$image:$debian
    build --build-arg DEBIAN=$debian -t "$tag" .
    check $? "the image builds on $debian" || exit 1
done
docker tag $image:trixie $image

# The same for every system; the environment goes before .env.
port=$(free_port)
export DUEPOST_IMAGE=$image GATEWAY_PORT=$port BALANCER_PORT=$port REDIS_APPENDFSYNC=always
export PROMETHEUS_PORT=$((port + 1))
export WEBHOOK_SUBNET=${E2E_SUBNET:-172.30.90.0/24} DUEPOST_NO_AUTH=true
export DUEPOST_ALLOW_NET=$WEBHOOK_SUBNET
DUEPOST_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
DUEPOST_SIGNING_SECRET=whsec_$(head -c 32 /dev/urandom | base64)
export DUEPOST_TOKEN DUEPOST_SIGNING_SECRET DUEPOST_READ_TOKEN=''
export COMPOSE_FILE='' COMPOSE_PROJECT_NAME=$project

check_image $image:trixie
check_image $image:bookworm
check_system
check_start_order
check_faults
check_backup Redis
down
check_balanced
check_valkey
DUEPOST_READ_TOKEN=of-prometheus-$RANDOM check_monitoring "a gateway with a token"
DUEPOST_TOKEN='' check_monitoring "a gateway without one"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
