#!/usr/bin/env bash
# `make bench-memory`: does Redis give back what TASKS tasks took? Creates and delivers them while finished ones go after a
# second, waits until none is left, and compares Redis' memory with what it was before. Exit 1 when it is over LIMIT
# percent more, or a task is missing. Ten million tasks take about ten minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."

DUEPOST_BIN=${DUEPOST_BIN:-build/release/duepost}
TASKS=${TASKS:-10000000}
LIMIT=${LIMIT:-5}
ROUND_S=20
. tests/bench/lib.sh

used_memory() { redis info memory | tr -d '\r' | sed -n 's/^used_memory://p'; }
finished() { redis zcard 'duepost{0}:delivered'; }
nothing_is_left() { [ "$(finished)" -eq 0 ] && [ "$(redis hget 'duepost{0}:totals' pending)" -eq 0 ]; }
delivered() { redis hget 'duepost{0}:totals' delivered; }
all_delivered() { [ "$(delivered)" -ge "$created" ]; }
settle_down() {
    until_true 300 all_delivered
    until_true 300 nothing_is_left
    sleep 15 # hash tables shrink little by little; and every script has run, whose commands Redis keeps figures of
}

prepare
start_all --retention-delivered 1s
redis config set slowlog-log-slower-than -1 >/dev/null # its entries are memory too, and not ours
load 5 ''
created=$(created_count)
settle_down
before=$(used_memory)
private_before=$(private_kib)
highest=$before
until [ "$created" -ge "$TASKS" ]; do
    load $ROUND_S ''
    created=$(created_count)
    curl -sS --noproxy '*' "$sink/reset" >/dev/null # the receiver remembers eight million ids and no more
    now=$(used_memory)
    [ "$now" -le "$highest" ] || highest=$now
    say "  $created created, $(delivered) delivered, Redis holds $((now / 1024)) KiB"
done
settle_down
after=$(used_memory)
growth=$(calc "($after - $before) * 100 / $before" 2)
say ""
say "$created tasks created and delivered, $(redis dbsize) keys left"
say "Redis memory: $((before / 1024)) KiB before, $((highest / 1024)) KiB at the most, $((after / 1024)) KiB after: $growth %"
say "gateway (Private_Dirty): $private_before KiB before, $(private_kib) KiB after"
[ "$(delivered)" -eq "$created" ] || die "$created created, $(delivered) delivered"
[ "$(calc "$growth <= $LIMIT" 0)" = 1 ] || die "more than $LIMIT % over what it was"
