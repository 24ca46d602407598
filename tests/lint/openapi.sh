#!/bin/sh
# Lint api/openapi.yaml with Redocly CLI, installed once into a folder of the build: openapi.sh FOLDER
set -eu
version=1.34.5
folder=$1
linter=$folder/$version
if [ ! -x "$linter/node_modules/.bin/redocly" ]; then
    command -v npm >/dev/null 2>&1 || { echo "npm is missing: make deps-gates" >&2; exit 1; }
    rm -rf "$linter"
    mkdir -p "$linter"
    npm install --prefix "$linter" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
        "@redocly/cli@$version"
fi
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true CI=true
"$linter/node_modules/.bin/redocly" lint --config tests/lint/redocly.yaml --format stylish api/openapi.yaml
