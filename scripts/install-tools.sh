#!/usr/bin/env bash
# Installs the system packages that a build needs and this machine lacks. Quick when all is there.
set -euo pipefail

packages=()
need() { # need COMMAND PACKAGE
  command -v "$1" >/dev/null || packages+=("$2")
}

need protoc protobuf-compiler # Lance compiles its protobuf files while it is built
need cc build-essential       # several crates compile C
need flock util-linux
need python3 python3
need node nodejs # LanceDB's Node client is one of the tests'
need npm npm
need openssl openssl # tests of HTTPS make a certificate
# The faster linker: .cargo/config.toml asks for it on this platform only.
[ "$(uname -sm)" != "Linux x86_64" ] || need mold mold
# Debian ships Python without the part that makes environments.
python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)

if [ "${#packages[@]}" -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "please install these first (names as in Debian): ${packages[*]}" >&2
    exit 1
  fi
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "as root, please run: apt-get install ${packages[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "installing ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}" </dev/null
fi

if ! command -v cargo >/dev/null; then
  echo "cargo was not found: install Rust (https://rustup.rs), then run make again" >&2
  exit 1
fi
