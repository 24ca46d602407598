#!/bin/sh
# Are the metrics of a running gateway, and the alerts on them, what Prometheus takes? metrics.sh DUEPOST
# The alerts and the dashboard may only use metrics that there are.
set -eu
duepost=$1
command -v promtool >/dev/null || { echo "promtool is missing: make deps-gates" >&2; exit 1; }
work=$(mktemp -d)
gateway=
stop() {
    [ -z "$gateway" ] || { kill -TERM "$gateway" 2>/dev/null && wait "$gateway" || true; }
    rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' HUP INT TERM

env -u DUEPOST_TOKEN "$duepost" --listen 127.0.0.1:0 --data-dir "$work/data" --allow-net 127.0.0.0/8 \
    >"$work/ready" 2>"$work/log" &
gateway=$!
tries=100
until url=$(sed -n 's/^duepost: ready on //p' "$work/ready") && [ -n "$url" ]; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { cat "$work/log" >&2; exit 1; }
    sleep 0.1
done
curl -sSf -o "$work/task" -H 'Content-Type: application/json' -d "{\"url\":\"$url/\",\"delay\":\"1h\"}" "$url/tasks"
curl -sSf -o "$work/metrics" "$url/metrics"

passed=0
failed=0
check() { # NAME COMMAND...
    name=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        passed=$((passed + 1))
    else
        echo "$name:"
        cat "$work/out"
        failed=$((failed + 1))
    fi
}
all_known() { # FILE: each metric it names is one of the gateway's
    sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' "$work/metrics" | sort -u >"$work/known"
    grep -oE '\b(duepost|process)_[a-z_]+' "$1" | sed -E 's/_(bucket|sum|count)$//' | sort -u >"$work/used"
    comm -13 "$work/known" "$work/used" >"$work/unknown"
    cat "$work/unknown"
    [ -s "$work/used" ] && [ ! -s "$work/unknown" ]
}
metrics_are_valid() { promtool check metrics <"$work/metrics"; }
check "promtool check metrics" metrics_are_valid
check "promtool check rules" promtool check rules docker/prometheus/alerts.yml
check "promtool test rules" promtool test rules docker/prometheus/alerts_test.yml
check "promtool check config" promtool check config --syntax-only docker/prometheus/prometheus.yml
check "the dashboard is JSON" python3 -m json.tool docker/grafana/dashboards/duepost.json
check "the alerts use metrics that there are" all_known docker/prometheus/alerts.yml
check "the dashboard uses metrics that there are" all_known docker/grafana/dashboards/duepost.json
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
