#!/bin/sh
# Replace all gateways by new ones, of a newer image or with other settings, without a pause: docker/roll.sh
#
# As many again are started; once all of them are healthy the old ones are stopped, one after another. It needs
# docker/balanced.yml, so that callers find the new ones. COMPOSE as for backup.sh.
set -eu
compose=${COMPOSE:-docker compose}
# shellcheck disable=SC2086 # COMPOSE is words
gateways() { $compose ps -q gateway; }
old=$(gateways)
count=$(echo "$old" | wc -w)
[ "$count" -gt 0 ] || { echo "roll.sh: no gateway is running" >&2; exit 1; }

# shellcheck disable=SC2086
$compose up -d --no-build --no-deps --no-recreate --scale gateway=$((2 * count)) gateway
patience=60
for new in $(gateways); do
    until [ "$(docker inspect -f '{{.State.Health.Status}}' "$new")" = healthy ]; do
        patience=$((patience - 1))
        [ $patience -gt 0 ] || { echo "roll.sh: a new gateway is not healthy; the old ones still run" >&2; exit 1; }
        sleep 1
    done
done
for gateway in $old; do
    docker stop "$gateway" >/dev/null
    docker rm "$gateway" >/dev/null
done
