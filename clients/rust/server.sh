#!/usr/bin/env bash
# A server for one test of LanceDB's Rust client: `headwater serve` on the directory in the first argument.
# It says on its output where it listens, in the words that client's tests wait for. They do not stop what
# they started, so the server ends when the process that started it has.
set -euo pipefail

data=${1:?usage: server.sh DIRECTORY}
headwater=${HEADWATER:?the command is needed in HEADWATER}
log=${HEADWATER_CLIENT_LOG:-/dev/null} # the tests open stderr and never read it

(
  # `$$` is this script, and the server from `exec` on.
  while kill -0 "$PPID" && kill -0 $$; do sleep 1; done
  kill $$ && sleep 30 && kill -KILL $$
) </dev/null >/dev/null 2>&1 &

exec "$headwater" serve --data "$data" --port 0 --no-auth --no-fsync </dev/null 2>>"$log" \
  > >(sed -nu 's|.* at http://127\.0\.0\.1:\([0-9]*\)$|Query node now listening on 0.0.0.0:\1|p')
