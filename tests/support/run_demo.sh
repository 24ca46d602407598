#!/bin/bash
# `make run`: the gateway with its private Redis and the demo receiver, both on loopback, until Ctrl-C.
#
# Addresses: DUEPOST_LISTEN (127.0.0.1:8080) and RECEIVE_LISTEN (127.0.0.1:9000). Bash for its job control, which puts
# every job into a process group of its own: Ctrl-C reaches neither make, which would call it a failure, nor the
# children, which are told to stop exactly once and in order.
set -um
if [ -t 0 ] && [ -z "${DEMO_IS_JOB:-}" ]; then
    DEMO_IS_JOB=1 setpriv --pdeathsig TERM bash "$0" "$@"
    exit
fi
duepost=$1
gateway_at=${DUEPOST_LISTEN:-127.0.0.1:8080}
receiver_at=${RECEIVE_LISTEN:-127.0.0.1:9000}
data_dir=${DUEPOST_DATA_DIR:-./duepost-data}
export DUEPOST_ALLOW_NET=${DUEPOST_ALLOW_NET:-127.0.0.0/8,::1/128}
export DUEPOST_LOG_LEVEL=${DUEPOST_LOG_LEVEL:-warn}

must_be_free() { # ADDRESS SETTING
    curl -s -o /dev/null --noproxy '*' --connect-timeout 2 --max-time 2 "http://$1/"
    if [ $? -ne 7 ]; then # 7: nobody listens
        echo "make run: $1 is taken by another program; stop it or set $2=HOST:PORT" >&2
        exit 1
    fi
}
must_be_free "$gateway_at" DUEPOST_LISTEN
must_be_free "$receiver_at" RECEIVE_LISTEN

receiver=
gateway=
stop() {
    trap '' HUP INT TERM
    # The gateway first: what it is delivering may still arrive.
    for child in $gateway $receiver; do
        kill -TERM "$child" 2>/dev/null
        wait "$child" 2>/dev/null
    done
}
interrupted() {
    echo
    echo "stopping; pending tasks stay in $data_dir"
    stop
    exit 0
}
ended() { # WHAT
    echo "make run: the $1 has ended; see above" >&2
    stop
    exit 1
}

trap interrupted HUP INT TERM
# A child ends with this script, whatever ends it.
setpriv --pdeathsig TERM "$duepost" receive --listen "$receiver_at" &
receiver=$!
setpriv --pdeathsig TERM "$duepost" serve --listen "$gateway_at" >/dev/null &
gateway=$!

until "$duepost" healthcheck --listen "$gateway_at" >/dev/null 2>&1; do
    kill -0 "$gateway" 2>/dev/null || ended gateway
    kill -0 "$receiver" 2>/dev/null || ended receiver
    sleep 0.1
done

cat <<END

  gateway   http://$gateway_at    its Redis is private, its data in $data_dir
  receiver  http://$receiver_at    prints below what arrives
  stop      Ctrl-C

Send a task that is due in 5 seconds, from another terminal:

  curl http://$gateway_at/tasks -H 'Content-Type: application/json' \\
       -d '{"url": "http://$receiver_at/hello", "delay": "5s", "payload": {"hello": "world"}}'

END

wait -n "$gateway" "$receiver"
kill -0 "$gateway" 2>/dev/null || ended gateway
ended receiver
