#!/bin/sh
# Signatures of a running gateway, verified by a library that is not ours and by the README's own code:
# run.sh DUEPOST FOLDER. FOLDER gets the library, once.
set -eu
duepost=$1
folder=$2
version=1.1.1

mkdir -p "$folder"
library=$(cd "$folder" && pwd)/standardwebhooks-$version
if [ ! -d "$library/node_modules/standardwebhooks" ]; then
    command -v npm >/dev/null 2>&1 || { echo "npm is missing: make deps-gates" >&2; exit 1; }
    rm -rf "$library"
    mkdir -p "$library"
    npm install --prefix "$library" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
        "standardwebhooks@$version"
fi
node tests/interop/signatures.mjs "$duepost" "$library" README.md
