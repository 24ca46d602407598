#!/bin/sh
# Put a backup in the place of all tasks: docker/restore.sh <duepost.rdb
#
# Gateways and Redis are stopped for it and started again. A file that is no whole backup changes nothing. COMPOSE is as
# for backup.sh.
set -eu
[ ! -t 0 ] || { echo "usage: restore.sh <FILE" >&2; exit 2; }
compose=${COMPOSE:-docker compose}
# shellcheck disable=SC2086 # COMPOSE is words
$compose stop gateway redis
# With the append-only file on, Redis reads nothing else. Its first part may be a snapshot, when a manifest says so.
rc=0
# shellcheck disable=SC2086,SC2016
$compose run --rm -T --no-deps redis sh -euc '
    cd /data
    rm -rf restore
    trap "rm -rf restore" EXIT
    mkdir restore
    cat >restore/appendonly.aof.1.base.rdb
    [ -s restore/appendonly.aof.1.base.rdb ] || { echo "the backup is empty" >&2; exit 1; }
    echo "file appendonly.aof.1.base.rdb seq 1 type b" >restore/appendonly.aof.manifest
    check=$(command -v redis-check-aof || command -v valkey-check-aof)
    said=$("$check" restore/appendonly.aof.manifest 2>&1) || { echo "$said" >&2; exit 1; }
    rm -rf appendonlydir
    mv restore appendonlydir' || rc=1
[ $rc -eq 0 ] || echo "restore.sh: nothing was changed" >&2
# shellcheck disable=SC2086
$compose start redis gateway
exit $rc
