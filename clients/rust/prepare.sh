#!/usr/bin/env bash
# Makes in the given directory the Cargo workspace that `make test-clients` builds: this directory, and
# beside it the published source of LanceDB's Rust client, checked by cargo when it is downloaded. Its
# program text is not touched; of its manifest go the examples and integration tests, and the crates only
# those need (SDKs of a cloud, a profiler).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=${1:?usage: prepare.sh DIRECTORY}
version=0.41.0

mkdir -p "$work/rte"
cp -pr "$here/Cargo.toml" "$here/Cargo.lock" "$work/"
cp -pr "$here/rte/." "$work/rte/"

wanted="$version $(sha256sum <"${BASH_SOURCE[0]}")"
[ "$(cat "$work/lancedb/.prepared" 2>/dev/null)" != "$wanted" ] || exit 0

published() { compgen -G "${CARGO_HOME:-$HOME/.cargo}/registry/src/*/lancedb-$version" | head -n 1; }
source=$(published) || (cd / && cargo info --quiet "lancedb@$version" >/dev/null)
source=$(published) || {
  echo "cargo did not bring the source of lancedb $version; is there a network?" >&2
  exit 1
}
rm -rf "$work/lancedb"
# With the times of its files, so that what was built of them stays built.
cp -pr "$source" "$work/lancedb"
# A published manifest is normalized: one table a paragraph.
awk 'BEGIN { RS = ""; ORS = "\n\n" }
  /^\[\[(example|test)\]\]/ { next }
  /^\[(target\."cfg\(unix\)"\.)?dev-dependencies\.(aws-|pprof|random_word)/ { next }
  { sub(/\nresolver = "2"/, ""); print }' "$source/Cargo.toml" >"$work/lancedb/Cargo.toml"
echo "$wanted" >"$work/lancedb/.prepared"
