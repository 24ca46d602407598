#!/bin/sh
# Print C arrays of the OpenAPI file and the Lua scripts: embed.sh OPENAPI SCRIPT.lua...
# What each script needs of lua/common.lua is put before it (bundle.awk), since Redis scripts cannot load one another.
set -eu
bytes() { od -An -v -tu1 | sed 's/  */,/g; s/^,//; s/$/,/'; }
openapi=$1
shift
lua=$(dirname "$1")
echo '#include "base/embedded.h"'
echo 'const char embedded_openapi[] = {'
bytes < "$openapi"
echo '0};'
echo 'const size_t embedded_openapi_bytes = sizeof(embedded_openapi) - 1;'
for script in "$@"; do
    name=$(basename "$script" .lua)
    [ "$name" = common ] && continue
    printf 'static const char lua_%s[] = {\n' "$name"
    awk -f "$lua/bundle.awk" "$lua/common.lua" "$script" | bytes
    echo '0};'
done
echo 'const struct embedded_script embedded_scripts[] = {'
for script in "$@"; do
    name=$(basename "$script" .lua)
    [ "$name" = common ] || printf '    {"%s", lua_%s, sizeof(lua_%s) - 1},\n' "$name" "$name" "$name"
done
echo '    {0, 0, 0},'
echo '};'
