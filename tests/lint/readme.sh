#!/bin/sh
# The README against the program: readme.sh DUEPOST. Its table of settings is the output of --help-markdown, and the
# files it links to exist. Prints what differs and exits 1.
set -u
duepost=$1
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rc=0

sed -n '/^<!-- settings:/,/^<!-- end of settings/{/^|/p}' README.md >"$work/written"
"$duepost" --help-markdown >"$work/real" || exit 1
if ! diff -u "$work/written" "$work/real"; then
    echo "README.md: the settings are not those of duepost --help-markdown"
    rc=1
fi
for file in $(grep -o '](\([^)#:]*\))' README.md | tr -d ']()' | sort -u); do
    if [ ! -e "$file" ]; then
        echo "README.md: there is no $file"
        rc=1
    fi
done
exit $rc
