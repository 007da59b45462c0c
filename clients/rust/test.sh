#!/usr/bin/env bash
# `make test-clients`: LanceDB's Rust client against this server. Two runs of one build: the tests of `rte`,
# and those of the client's own that its authors made to be pointed at a server.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${1:?usage: test.sh CACHE HEADWATER}
export HEADWATER=${2:?usage: test.sh CACHE HEADWATER}
export CREATE_LANCEDB_TEST_CONNECTION_SCRIPT="$here/server.sh"
export HEADWATER_CLIENT_LOG="$cache/servers.log"
export CARGO_TARGET_DIR="$cache/target"

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
"$here/prepare.sh" "$cache/workspace"
: >"$HEADWATER_CLIENT_LOG"
cd "$cache/workspace"
# Always --workspace: one build of Lance serves both.
cargo test --locked --workspace --test rte
cargo test --locked --workspace --lib -- connection::tests table::tests::test_dynamic_select
