#!/bin/sh
# Coverage of src/ after the tests have run in a coverage build: coverage.sh BUILD
# Prints each file, and fails below the floors, which only ever rise.
set -eu
lines_floor=92
task_branches_floor=94
build=$1
find "$build/src" -name '*.gcda' | sort | while read -r data; do
    gcov -n -b -o "${data%/*}" "$data" 2>/dev/null
done | awk -v lines_floor=$lines_floor -v branches_floor=$task_branches_floor -F"[':% ]" '
    /^File/ { file = $3; wanted = file ~ /^src\/.*\.c$/ && !(file in seen); if (wanted) seen[file] = 1 }
    # "Lines executed:97.53% of 81": the share and the number.
    wanted && /^Lines executed/ {
        hit = $3 / 100 * $6
        lines += $6; lines_hit += hit
        printf "%-34s %5.1f %% of %4d lines", file, $3, $6
    }
    wanted && /^Taken at least once/ {
        printf ", %5.1f %% of %4d branches", $5, $8
        if (file ~ /^src\/task\//) { branches += $8; branches_hit += $5 / 100 * $8 }
    }
    wanted && /^(No calls|Calls executed)/ { print ""; wanted = 0 }
    END {
        if (lines == 0) { print "no coverage data"; exit 1 }
        all = lines_hit * 100 / lines
        task = branches ? branches_hit * 100 / branches : 0
        printf "src/: %.1f %% of lines (floor %d); src/task/: %.1f %% of branches (floor %d)\n", all, lines_floor, task, branches_floor
        exit all < lines_floor || task < branches_floor
    }'
