#!/bin/sh
# luacheck on each script with lua/common.lua in front. What one script does not use of common.lua is fine; what none
# uses is not. And on each as Redis gets it, with what it needs of common.lua: nothing may be missing (W1).
set -u
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
common_lines=$(wc -l <lua/common.lua)
scripts=0
for script in lua/*.lua; do
    [ "$script" = lua/common.lua ] && continue
    scripts=$((scripts + 1))
    cat lua/common.lua "$script" |
        luacheck --std lua51 --read-globals redis KEYS ARGV struct cjson bit cmsgpack --max-line-length 120 \
            --formatter plain --codes --filename "$script" - >>"$work/findings"
    awk -f lua/bundle.awk lua/common.lua "$script" |
        luacheck --std lua51 --read-globals redis KEYS ARGV struct cjson bit cmsgpack --only 1 \
            --formatter plain --codes --filename "$script as bundled" - >>"$work/missing"
done
cat "$work/missing"
awk -F: -v common="$common_lines" -v scripts="$scripts" '
    $2 <= common { sub(/^[^:]*:[0-9]*/, "lua/common.lua:" $2); if (seen[$0]++ == 0 && !/W211/) report[$0] = 1; next }
    { sub(/:[0-9]*/, ":" $2 - common); print; bad = 1 }
    END {
        for (finding in seen)
            if (finding in report || seen[finding] == scripts) { print finding; bad = 1 }
        exit bad
    }' "$work/findings" && [ ! -s "$work/missing" ]
