# shellcheck shell=bash disable=SC2154 # work is e2e.sh's
# The images that e2e.sh needs: those that are there, else the registry's, else made of Debian's packages.

made=() # what --clean takes away again

have_image() { docker image inspect "$1" >/dev/null 2>&1; }

pull() { timeout 60 docker pull -q "$1" >/dev/null 2>&1; }

make_base() { # SUITE
    command -v mmdebstrap >/dev/null || die "no registry can be reached, and mmdebstrap is missing: make deps-docker"
    # Like the real one: no manuals, no translations, no caches of apt.
    mmdebstrap --quiet --variant=minbase --include=ca-certificates,passwd \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        "$1" - ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} 2>/dev/null | docker import - "debian:$1-slim" >/dev/null
}

need_base() { # SUITE
    have_image "debian:$1-slim" || pull "debian:$1-slim" && return
    echo "  making debian:$1-slim"
    make_base "$1" || die "debian:$1-slim cannot be made"
    made+=("debian:$1-slim")
}

need_image() { # IMAGE TARGET
    have_image "$1" || pull "$1" && return
    echo "  making $1 of Debian's packages"
    build --target "$2" -t "$1" -f docker/e2e/stand-ins.Dockerfile docker/e2e || die "$1 cannot be made"
    made+=("$1")
}

# DOCKER_BUILD_OPTIONS is what this machine needs to reach Debian's packages from inside a build.
build() {
    # shellcheck disable=SC2086 # words
    docker build -q ${DOCKER_BUILD_OPTIONS:-} "$@" >"$work/build.log" 2>&1 && return
    tail -n 40 "$work/build.log"
    return 1
}

need_images() {
    need_base trixie
    need_base bookworm
    need_image redis:8 redis
    need_image valkey/valkey:8 valkey
    need_image haproxy:3.0 haproxy
    need_image prom/prometheus:v3.5.0 prometheus
}
