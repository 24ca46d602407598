#!/bin/sh
# All tasks of the composed system, as they are at one moment, to stdout: docker/backup.sh >duepost.rdb
#
# Nothing stops meanwhile. Run it where `docker compose` finds the system; COMPOSE says another way to call it, for
# instance "docker-compose -p other". The volume of Redis needs room for the file for a moment.
set -eu
[ ! -t 1 ] || { echo "usage: backup.sh >FILE" >&2; exit 2; }
# Straight to stdout redis-cli would add the mark that ends a transfer, which is no part of the file.
# shellcheck disable=SC2086,SC2016 # COMPOSE is words; the rest is for the shell inside
exec ${COMPOSE:-docker compose} exec -T redis sh -euc '
    cd /data
    trap "rm -f backup.rdb" EXIT
    "$(command -v redis-cli || command -v valkey-cli)" --rdb backup.rdb >&2
    cat backup.rdb'
