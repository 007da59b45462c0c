#!/usr/bin/env bash
# Makes the Python environment that tests and the example use, and brings it up to date when
# requirements-dev.txt has changed. Safe to call from several processes at once.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache="$HOME/.cache/headwater"
venv=${HEADWATER_VENV:-$cache/venv}
requirements="$root/requirements-dev.txt"
stamp="$venv/.requirements-dev.sha256"
wanted=$(sha256sum <"$requirements")

up_to_date() {
  [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]
}

up_to_date && exit 0

if ! command -v python3 >/dev/null; then
  echo "python3 was not found: install Python 3.11 or later, then run make again" >&2
  exit 1
fi
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "$(python3 --version) is too old: the pinned packages need Python 3.11 or later" >&2
  exit 1
fi

mkdir -p "$cache" "$(dirname "$venv")"
exec 9>"$cache/venv.lock"
flock 9
up_to_date && exit 0 # another process made it while this one waited

echo "making the Python environment in $venv"
rm -f "$stamp"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements"
echo "$wanted" >"$stamp"
