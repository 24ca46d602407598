# What a script needs of common.lua, and then the script: awk -f bundle.awk common.lua SCRIPT.lua
#
# All that stands before a script is run in each call of it, and every function costs time there. So of common.lua only
# those paragraphs (parts between blank lines) go along that declare a name which the script uses, or which another of
# these paragraphs uses. Names are compared as words, wherever they stand outside comments: at worst a paragraph too
# many goes along.
BEGIN { RS = "" }

# The words of a text become indices of `used`.
function note_words(text, used,    words, n, i) {
    gsub(/--[^\n]*/, "", text)
    n = split(text, words, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= n; i++) used[words[i]]
}

# Whether one of the lines "local function NAME" and "local NAME, NAME = ..." at the left margin declares a used name.
function declares_used(text, used,    lines, names, n, m, i, j) {
    n = split(text, lines, "\n")
    for (i = 1; i <= n; i++) {
        if (!sub(/^local (function )?/, "", lines[i])) continue
        sub(/ *[=(].*/, "", lines[i])
        m = split(lines[i], names, ", ")
        for (j = 1; j <= m; j++) if (names[j] in used) return 1
    }
    return 0
}

FILENAME == ARGV[1] { common[++count] = $0; next }
{ script = script $0 "\n\n"; note_words($0, used) }

# Upwards, since whatever a paragraph uses was declared before it.
END {
    for (i = count; i > 0; i--) {
        if (declares_used(common[i], used)) { note_words(common[i], used); goes_along[i] }
    }
    for (i = 1; i <= count; i++) if (i in goes_along) print common[i] "\n"
    printf "%s", script
}
