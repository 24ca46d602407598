#!/bin/sh
# Install what is missing on Debian or Ubuntu: deps.sh SET..., of build, test, bench, peers, gates, deb and docker. Says
# what it installs; silent, quick and without apt when nothing is missing.
set -eu

# "package[,another that will do]:what tells that it is there without the package" (a command or a pkg-config name).
build='gcc:gcc libc6-dev: pkg-config,pkgconf:pkg-config libmicrohttpd-dev:libmicrohttpd libgnutls28-dev:gnutls
libhiredis-dev:hiredis libjansson-dev:jansson libcurl4-openssl-dev:libcurl libssl-dev:libcrypto
redis-server,valkey-redis-compat:redis-server curl:curl ca-certificates:'
test='libcriterion-dev:criterion libyaml-dev:yaml-0.1'
bench='wrk:wrk redis-tools,valkey-redis-compat:redis-benchmark python3:python3'
peers='npm:npm'
docker='docker.io:dockerd docker-compose:docker-compose iptables:iptables mmdebstrap:mmdebstrap curl:curl'
gates='clang:clang libclang-rt-dev: clang-tidy:clang-tidy clang-format:clang-format lua-check:luacheck
shellcheck:shellcheck npm:npm python3-venv: mandoc:mandoc prometheus:promtool'
deb='build-essential: debhelper:'

installed=" $(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 2>/dev/null | sed -n 's/^ii *//p' | tr '\n' ' ') "

have() { # PACKAGES SIGN
    for package in $(echo "$1" | tr , ' '); do
        case $installed in *" $package "*) return 0 ;; esac
    done
    [ -n "$2" ] || return 1
    command -v "$2" >/dev/null 2>&1 || pkg-config --exists "$2" 2>/dev/null
}

missing=
for set in "$@"; do
    case $set in
    build) items=$build ;; test) items=$test ;; gates) items=$gates ;; deb) items=$deb ;;
    docker) items=$docker ;;
    bench) items=$bench ;; peers) items=$peers ;;
    *) echo "deps.sh: no set '$set'" >&2; exit 2 ;;
    esac
    for item in $items; do
        have "${item%%:*}" "${item#*:}" || missing="$missing ${item%%:*}"
    done
done
[ -n "$missing" ] || exit 0
names=$(echo "$missing" | sed 's/,[^ ]*//g')

if ! command -v apt-get >/dev/null 2>&1; then
    echo "missing:$names (Debian's names); install them by your system's means, apt-get is not here" >&2
    exit 1
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then
    as_root=sudo
    if ! command -v sudo >/dev/null 2>&1; then
        echo "missing, and sudo too; run as root: apt-get install$names" >&2
        exit 1
    fi
fi

apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 "$@"; }
update() {
    echo "deps: updating apt's package lists"
    apt update >/dev/null
}
known() { apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'; }
choose() { # the first of each alternative that apt knows
    chosen=
    for item in $missing; do
        for package in $(echo "$item" | tr , ' '); do
            known "$package" && break
            package=${item%%,*}
        done
        chosen="$chosen $package"
    done
}

# Redis is wanted as a program only: its package must not start a server on port 6379, now or at the next boot.
policy=/usr/sbin/policy-rc.d
forbid_services() {
    case $chosen in *redis-server* | *valkey*) ;; *) return 0 ;; esac
    [ -e $policy ] && return 0
    trap allow_services EXIT
    trap 'exit 130' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
    $as_root chmod 755 $policy
}
allow_services() { $as_root rm -f $policy; }
disable_service() {
    case $chosen in *redis-server*) service=redis-server ;; *valkey*) service=valkey-server ;; *) return 0 ;; esac
    $as_root update-rc.d $service disable >/dev/null 2>&1 || true
    echo "deps: the $service service that came along is switched off; only its program is used"
}

ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1 || update
choose
echo "deps: installing$chosen"
forbid_services
if ! apt install -y --no-install-recommends --no-remove $chosen; then
    update # stale lists name versions that are gone
    choose
    apt install -y --no-install-recommends --no-remove $chosen
fi
disable_service
