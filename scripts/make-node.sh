#!/usr/bin/env bash
# Puts the packages of LanceDB's Node client where the tests look for them, and brings them up to date when
# the lock file has changed. Safe to call from several processes at once.
#
# What the client asks for and the tests do not need (libraries for embeddings, types of a newer Node) is
# replaced by a small package it needs anyway, see `overrides`: the true ones are half a gigabyte. The
# client's manifest names Node 22; it loads on 20.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache="$HOME/.cache/headwater"
node=${HEADWATER_NODE:-$cache/node}
manifests="$root/crates/server/tests/all/node"
stamp="$node/.packages.sha256"
wanted=$(cat "$manifests/package.json" "$manifests/package-lock.json" | sha256sum)

up_to_date() {
  [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]
}

up_to_date && exit 0

if ! command -v npm >/dev/null || ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then
  echo "npm and node were not found, or are older than version 20: install them, then run make again" >&2
  exit 1
fi

mkdir -p "$cache" "$node"
exec 9>"$cache/node.lock"
flock 9
up_to_date && exit 0 # another process made it while this one waited

echo "installing LanceDB's Node client in $node"
rm -f "$stamp"
cp "$manifests/package.json" "$manifests/package-lock.json" "$node/"
# Not `npm ci`: the part in machine code is a package for each platform, of the client's exact version;
# registries do not have all of them, and the lock file names those that were there. What npm passed over is
# noticed below.
rm -rf "$node/node_modules"
(cd "$node" && npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error </dev/null)
(cd "$node" && node -e 'require("@lancedb/lancedb")')
echo "$wanted" >"$stamp"
