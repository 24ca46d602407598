#!/bin/bash
# The service in a system that has just booted: the second half of try.sh, which counts the lines "ok" and "FAILED".
set -u
log=$(mktemp)

check() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$log" 2>&1; then
        echo "ok      $name"
    else
        echo "FAILED  $name"
        { cat "$log"; systemctl status --no-pager --lines=20 duepost; } 2>&1 | sed 's/^/        /'
    fi
}
is() { # WANTED COMMAND...: what a command prints
    local wanted=$1 real
    shift
    real=$("$@")
    [ "$real" = "$wanted" ] || { echo "'$real', not '$wanted'"; return 1; }
}
wait_for() { # COMMAND...: until it succeeds, 20 s at most
    for ((i = 0; i < 200; i++)); do
        "$@" && return 0
        sleep 0.1
    done
    return 1
}
get() { curl -sf "http://127.0.0.1:8080$1"; }
post() { # ID PATH DELAY
    curl -sf http://127.0.0.1:8080/tasks -H 'Content-Type: application/json' \
        -d "{\"id\": \"$1\", \"url\": \"http://127.0.0.1:9000/$2\", \"delay\": \"$3\", \"payload\": {\"n\": 1}}"
}
has_state() { get "/tasks/$1" | grep -q "\"state\":\"$2\""; }
property() { systemctl show --property "$1" --value duepost; }
end_at_once() { # PID: never 0 or none, which would mean this script
    [ "${1:-0}" -gt 1 ] && kill -9 "$1"
}
main_pid_changed() { [ "$(property MainPID)" != "$1" ] && [ "$(property MainPID)" -gt 0 ]; }

# --- it starts with the machine -----------------------------------------------------------------------------------

booted() { case $(systemctl is-system-running) in running | degraded) ;; *) return 1 ;; esac; }
check "the boot comes to its end" wait_for booted
check "the service is active" is active systemctl is-active duepost
systemctl -q is-active duepost || exit 1 # nothing below would tell more
check "the manager was told that it is ready" is ready property StatusText
check "healthcheck says so too" duepost healthcheck --config /etc/duepost/duepost.json
check "it runs as its own user" is duepost ps -o user= -p "$(property MainPID)"
check "its settings are for root and the service only" is "750 root duepost" stat -c '%a %U %G' /etc/duepost
check "so is its data" is "700 duepost duepost" stat -c '%a %U %G' /var/lib/duepost
check "systemd-analyze finds its sandbox tight (2.0 at most)" systemd-analyze security --threshold=20 --no-pager duepost

# --- it works -----------------------------------------------------------------------------------------------------

printf 'DUEPOST_ALLOW_NET=127.0.0.0/8\nDUEPOST_DRAIN_TIMEOUT=90s\n' >/etc/default/duepost
check "variables in /etc/default/duepost count" systemctl restart duepost
duepost receive --listen 127.0.0.1:9000 >/root/received 2>&1 &
receiver=$!
wait_for curl -so /dev/null http://127.0.0.1:9000/hello
check "a task is accepted" post first first 1s
check "and delivered" wait_for has_state first delivered
check "once" is 1 grep -c 'POST /first' /root/received

# --- it survives --------------------------------------------------------------------------------------------------

check "a task waits for an hour" post later later 1h
redis_pid() { pgrep -u duepost redis-server; }
end_at_once "$(redis_pid)"
check "its Redis is started again when it dies" wait_for post second second 1s
check "and delivers" wait_for has_state second delivered
pid=$(property MainPID)
end_at_once "$pid"
check "the gateway is started again when it dies" wait_for main_pid_changed "$pid"
check "and knows the task that waits" wait_for has_state later scheduled

pid=$(property MainPID)
check "the package is installed over itself" dpkg -i /root/duepost.deb
check "which restarts the service" main_pid_changed "$pid"
check "and keeps the task that waits" has_state later scheduled

# --- it stops -----------------------------------------------------------------------------------------------------

# The receiver takes the request and keeps silent: longer than TimeoutStopSec is here, shorter than the drain-timeout, for
# which the gateway asks.
mkdir /etc/systemd/system/duepost.service.d
printf '[Service]\nTimeoutStopSec=1s\n' >/etc/systemd/system/duepost.service.d/try.conf
systemctl daemon-reload
kill -STOP $receiver
check "a task is accepted for a receiver that is silent" post slow slow 10ms
check "and is on its way" wait_for has_state slow delivering
(sleep 3; kill -CONT $receiver) &
check "a stop waits for it" systemctl stop duepost
check "and exits with 0" is "0 success" echo "$(property ExecMainStatus) $(property Result)"
check "no redis-server is left" [ -z "$(redis_pid)" ]
check "what was on its way has arrived" grep -q 'POST /slow' /root/received
check "it starts again" systemctl start duepost
check "and what arrived is not sent again" has_state slow delivered

cp /etc/duepost/duepost.json /root/
echo '{"colour": "red"}' >/etc/duepost/duepost.json
systemctl restart duepost 2>/dev/null
check "wrong settings end it with 78" is 78 property ExecMainStatus
check "and are told in the log" grep -q colour <(journalctl -u duepost --no-pager)
check "it is not tried again and again" is failed systemctl is-active duepost
cp /root/duepost.json /etc/duepost/

# --- it goes ------------------------------------------------------------------------------------------------------

systemctl start duepost
check "it can be removed" dpkg -r duepost
check "which ends the service" is inactive systemctl is-active duepost
check "and leaves settings and tasks" test -e /etc/duepost/duepost.json -a -e /var/lib/duepost/appendonlydir
rm -r /etc/default/duepost /etc/systemd/system/duepost.service.d # made here, not by the package
check "it can be purged" dpkg -P duepost
left_over() {
    find / -xdev -path /proc -prune -o -name '*duepost*' -not -path '/root/*' -not -path '/tmp/*' -print
}
check "and nothing is left" is "" left_over

kill $receiver
rm -f "$log"
echo end
