#!/bin/bash
# The man page and the completion as they are installed: package.sh DUEPOST FOLDER, which has duepost.1 and duepost.bash.
# Both have every setting; the page is free of faults; the completion offers what it should. Prints what is wrong and
# exits 1.
set -u
duepost=$1
folder=$2
rc=0
find_fault() {
    echo "$1"
    rc=1
}

# --- every setting in both ----------------------------------------------------------------------------------------

[ "$("$duepost" --print-config 2>/dev/null | grep -c '^  "')" -gt 20 ] || find_fault "package: no settings to compare with"
for key in $("$duepost" --print-config | sed -n 's/^  "\([a-z-]*\)".*/\1/p'); do
    case $key in
    token | read-token | signing-secret) # no flag
        variable=DUEPOST_$(echo "$key" | tr a-z- A-Z_)
        grep -q "^\.It Ev $variable\$" "$folder/duepost.1" || find_fault "duepost.1: $variable is missing"
        grep -qE "^$key( |\$)" "$folder/duepost.bash" && find_fault "duepost.bash: a secret has no flag --$key"
        ;;
    *)
        grep -qE "^\.It Fl \\\\-${key//-/\\\\-}( |\$)" "$folder/duepost.1" || find_fault "duepost.1: --$key is missing"
        grep -qE "^$key( |\$)" "$folder/duepost.bash" || find_fault "duepost.bash: --$key is missing"
        ;;
    esac
done

# --- the page -----------------------------------------------------------------------------------------------------

if command -v mandoc >/dev/null 2>&1; then
    page=$(mandoc -T lint -W warning "$folder/duepost.1") || find_fault "$page"
else
    find_fault "mandoc is missing: make deps-gates"
fi

# --- the completion -----------------------------------------------------------------------------------------------

compopt() { options="$options $*"; } # it works inside a completion only
# shellcheck disable=SC1091
. "$folder/duepost.bash"

# offered WORD...: what is offered for the last word, sorted, in one line; $options are those of readline.
offered() {
    COMP_WORDS=(duepost "$@")
    COMP_CWORD=$#
    options=
    _duepost duepost "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    result=$(printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | tr '\n' ' ')
    result=${result% }
}
expect() { # WANTED WORD...
    local wanted=$1
    shift
    offered "$@"
    [ "$result" = "$wanted" ] || find_fault "duepost.bash: 'duepost $*' offers '$result', not '$wanted'"
}

expect 'healthcheck help receive serve' ''
expect 'healthcheck help' he
expect 'debug error info warn' --log-level ''
expect 'debug' --log-level d
expect 'debug error info warn' serve --log-level =
expect 'warn' --log-level = w
expect 'json text' healthcheck --log-format ''
expect 'fsync memory replica' --durability ''
expect 'embedded' --redis e
expect '--redis --redis-file' --redis
expect '--data-dir --drain-timeout --durability' --d
expect '--no-auth' --listen 127.0.0.1:80 --no-a
expect '--log-format --log-level' --no-auth --log
expect '--print-config' --pri
expect '' --listen ''
expect '--help --listen --quiet --secret-file --status --version' receive ''
expect '' receive --status ''
expect '' help ''
expect 'api' --data-dir ap
expect '' --data-dir Makef
expect 'api/openapi.yaml' --config api/
[ "$options" = ' -o filenames' ] || find_fault "duepost.bash: a file's name is not completed as one"
expect 'Makefile' --tls-cert = Makef
expect 'README.md' receive --secret-file READ

# Each flag of --help is offered, and none besides.
offered -
real=$("$duepost" --help | grep -oE '^  --[a-z-]+' | tr -d ' '; printf '%s\n' --help --version --print-config)
real=$(echo "$real" | LC_ALL=C sort | paste -sd ' ')
[ "$result" = "$real" ] || find_fault "duepost.bash offers '$result', --help has '$real'"

exit $rc
