#!/bin/sh
# The man page and the completion with the settings in them: fill.sh mdoc|bash TEMPLATE DUEPOST
# `duepost --help` has the settings; they replace the template's line @settings@.
set -eu
form=$1 template=$2 duepost=$3
settings=$(mktemp)
trap 'rm -f "$settings"' EXIT
"$duepost" --help | sed -nE '/^  (--[a-z]|DUEPOST_)/{s/^  //;p}' >"$settings"
[ -s "$settings" ] || { echo "fill.sh: no settings in $duepost --help" >&2; exit 1; }

case $form in
# "max-body N", without what has no flag.
bash) sed -nE 's/^--([^ ]+( [^ ]+)?) .*/\1/p' "$settings" ;;
# ".It Fl \-max\-body Ar N" and its text, in lines of at most 78 bytes that cannot be taken for requests.
mdoc) awk '
    function put_folded(text, n, words, line, i) {
        n = split(text, words, " ")
        line = words[1]
        for (i = 2; i <= n + 1; i++) {
            if (i <= n && length(line " " words[i]) <= 76) { line = line " " words[i]; continue }
            print (line ~ /^[.\x27]/ ? "\\&" : "") line
            line = words[i]
        }
    }
    {
        gsub(/\\/, "\\e")
        gsub(/-/, "\\-")
        match($0, /  +/)
        name = substr($0, 1, RSTART - 1)
        text = substr($0, RSTART + RLENGTH)
        sub(/ \(none\)$/, "", text)
        if (match(text, /\([^()]*\)$/) && substr(text, RSTART) !~ /^\(none/)
            text = substr(text, 1, RSTART) "default: " substr(text, RSTART + 1)
        if (sub(/^\\-\\-/, "", name)) { sub(/ /, " Ar ", name); print ".It Fl \\-" name }
        else print ".It Ev " name
        put_folded(text)
    }' "$settings" ;;
*) echo "fill.sh: no form $form" >&2; exit 2 ;;
esac >"$settings.filled"
trap 'rm -f "$settings" "$settings.filled"' EXIT
sed -e "/^@settings@$/{r $settings.filled" -e 'd}' "$template"
