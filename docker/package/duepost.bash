# bash completion for duepost; the list of settings is put in by fill.sh.
# Needs nothing but bash: it works with and without the package bash-completion.

_duepost_settings='
@settings@
'
_duepost_receive_flags='
listen HOST:PORT
secret-file FILE
status CODE
quiet
'

# Offer what compgen finds.
_duepost_offer() {
    mapfile -t COMPREPLY < <(compgen "$@")
}

# Offer the values of one kind that begin with $2.
_duepost_offer_values() {
    case $1 in
    FILE)
        compopt -o filenames
        _duepost_offer -f -- "$2"
        ;;
    FOLDER)
        compopt -o filenames
        _duepost_offer -d -- "$2"
        ;;
    URL)
        compopt -o nospace
        _duepost_offer -W 'embedded redis:// unix:///' -- "$2"
        ;;
    *'|'*) _duepost_offer -W "${1//|/ }" -- "$2" ;;
    esac
}

_duepost() {
    local word=$2 before=$3 command=serve flags names name kind
    COMPREPLY=()

    if [ "$COMP_CWORD" -gt 1 ] && [[ ${COMP_WORDS[1]} != -* ]]; then
        command=${COMP_WORDS[1]}
    elif [ "$COMP_CWORD" -eq 1 ] && [[ $word != -* ]]; then
        _duepost_offer -W 'serve receive healthcheck help' -- "$word"
        return
    fi
    names='--help --version'
    case $command in
    serve | healthcheck) flags=$_duepost_settings names+=' --print-config' ;;
    receive) flags=$_duepost_receive_flags ;;
    *) return ;;
    esac

    # --log-level=de comes as three words: the flag, = and what was begun.
    if [ "$before" = = ]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    elif [ "$word" = = ]; then
        word=
    fi
    while read -r name kind; do
        [ -n "$name" ] || continue
        if [ "$before" = "--$name" ] && [ -n "$kind" ]; then
            _duepost_offer_values "$kind" "$word"
            return
        fi
        names+=" --$name"
    done <<<"$flags"
    _duepost_offer -W "$names" -- "$word"
}

complete -F _duepost duepost
