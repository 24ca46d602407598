#!/bin/sh
# Structural rules that no compiler checks. Prints every finding and exits 1 when there is one.
set -u
cd "$(dirname "$0")/../.." || exit 1
findings=0
find_fault() {
    printf '%s\n' "$1"
    findings=$((findings + 1))
}
in_list() { case " $2 " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

# Folder -> the folders it may include.
folders_of() {
    case $1 in
    base) echo base ;;
    conf) echo base conf ;;
    task) echo base task ;;
    receive) echo base task conf receive ;;
    store) echo base task store ;;
    deliver) echo base task deliver ;;
    run) echo base task store deliver run ;;
    http) echo base task store http ;;
    app) echo base conf task receive store deliver run http app ;;
    main) echo base conf app receive ;;
    esac
}
# Folder -> the third-party headers (patterns of their first part) it may include.
libraries_of() {
    case $1 in
    base) echo pthread.h ;;
    conf) echo jansson.h ;;
    task) echo jansson.h openssl curl/urlapi.h ;;
    receive) echo microhttpd.h ;;
    store) echo hiredis ;;
    deliver) echo curl ;;
    http) echo microhttpd.h gnutls jansson.h ;;
    esac
}
check_includes() {
    file=$1
    folder=$(echo "$file" | cut -d/ -f2)
    [ "$folder" = main.c ] && folder=main
    for header in $(sed -n 's/^#include "\(.*\)"/\1/p' "$file"); do
        other=${header%%/*}
        in_list "$other" "$(folders_of "$folder")" || find_fault "$file: $folder/ may not include $header"
        case $header in
        *_priv.h) [ "$other" = "$folder" ] || find_fault "$file: $header is private to $other/" ;;
        esac
    done
    for header in $(sed -n 's/^#include <\(pthread\.h\|jansson\.h\|microhttpd\.h\|\(hiredis\|curl\|openssl\|gnutls\)\/.*\)>/\1/p' \
        "$file"); do
        in_list "$header" "$(libraries_of "$folder")" || in_list "${header%%/*}" "$(libraries_of "$folder")" ||
            find_fault "$file: $folder/ may not include <$header>"
    done
    case $file in
    *.c)
        own=${file#src/}
        own=${own%.c}.h
        first=$(sed -n '/^#include/{s/^#include ["<]\(.*\)[">].*/\1/p;q}' "$file")
        if [ -e "src/$own" ] && [ "$first" != "$own" ]; then
            find_fault "$file: its own header $own must come first"
        fi
        ;;
    esac
}
# A header has the guard FOLDER_FILE_H and compiles alone.
check_header() {
    guard=$(echo "${1#src/}" | tr 'a-z/.' 'A-Z__')
    [ "$(grep -m 1 '^#' "$1")" = "#ifndef $guard" ] || find_fault "$1: the guard must be $guard"
    # shellcheck disable=SC2086
    echo "#include \"${1#src/}\"" | ${CC:-gcc} -std=c11 -D_GNU_SOURCE -Isrc ${CPPFLAGS:-} -fsyntax-only -x c - ||
        find_fault "$1: not self-contained"
}

sources=$(find src -name '*.[ch]' | sort)
for file in $sources; do
    check_includes "$file"
    case $file in *.h) check_header "$file" ;; esac
done

# Calls that are banned, with what to use instead known to everybody. Comments do not count.
banned='strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atof|sscanf|localtime|gmtime|ctime|strerror|rand|alloca|system|setenv'
# shellcheck disable=SC2086
calls=$(grep -nE "(^|[^A-Za-z0-9_])($banned)\\(" $sources | grep -vE '^[^:]*:[0-9]*:[[:space:]]*(/?\*|//)')
[ -z "$calls" ] || find_fault "$calls
^ banned calls"

# Mutable statics: only what the whole process shares by nature (log, metrics, clock), and limits on log lines.
# shellcheck disable=SC2046
statics=$(grep -nE '^[[:space:]]*static [^()]*(;|=)' $(echo "$sources" | grep -vE '^src/base/(log|metrics|clock)\.c$') |
    grep -vE 'static (const|inline|_Thread_local|struct log_limit) |\*const ')
[ -z "$statics" ] || find_fault "$statics
^ mutable statics"

# Length: functions up to 80 lines, files up to 500. A function's body is what stands between braces in column one.
# shellcheck disable=SC2046
long=$(awk '
    FNR == 1 { begin = 0 }
    FNR == 501 { print FILENAME ": over 500 lines" }
    /^$/ || /^#/ || /\*\/$/ { begin = FNR + 1 }
    /^{/ { from = begin }
    /^}/ {
        if (from && FNR - from + 1 > 80) print FILENAME ":" from ": a function of " FNR - from + 1 " lines"
        from = 0
    }' $(find src tests -name '*.[ch]' | sort))
[ -z "$long" ] || find_fault "$long"

# A .c over 150 lines begins with a comment on its design.
for file in $(find src -name '*.c' | sort); do
    [ "$(wc -l <"$file")" -le 150 ] || sed -n '/^#include/d;/^$/d;p' "$file" | head -n 1 | grep -q '^/\*' ||
        head -n 1 "$file" | grep -q '^/\*' || find_fault "$file: over 150 lines without a design comment"
done

# Scripts: common.lua is put before every other one, so what it declares is known there.
if command -v luacheck >/dev/null 2>&1; then
    sh tests/lint/lua.sh || find_fault "luacheck has findings"
else
    find_fault "luacheck is missing: make deps-gates"
fi
if command -v shellcheck >/dev/null 2>&1; then
    # shellcheck disable=SC2046
    shellcheck -S warning $(git ls-files '*.sh' .ci/run 2>/dev/null || find tests lua docker .ci -name '*.sh') ||
        find_fault "shellcheck has findings"
else
    find_fault "shellcheck is missing: make deps-gates"
fi

[ "$findings" -eq 0 ] || echo "lint: $findings findings"
[ "$findings" -eq 0 ]
