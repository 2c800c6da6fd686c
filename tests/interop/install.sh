#!/usr/bin/env bash
# Installs the official MCP clients of Python, Rust and TypeScript for tests/interop.
#
# They go below cargo's target folder and stay there: a run that finds what the lock files ask for
# does nothing. Needs python3 with its venv module, node 20 or newer, and npm; the Rust client is
# built with cargo, in a folder of its own, so that what it brings is compiled once.

set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
target="${CARGO_TARGET_DIR:-$here/../../target}"
folder="$target/tmp/interop"

need() {
  command -v "$1" >/dev/null || {
    echo "tests/interop needs $1: $2" >&2
    exit 1
  }
}
need python3 "install Python 3.10 or newer with its venv module"
need node "install Node.js 20 or newer"
need npm "install npm beside Node.js"
if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
  echo "tests/interop needs Node.js 20 or newer; this is $(node --version)" >&2
  exit 1
fi

# Nobody debugs it, whatever the rest is built for.
CARGO_PROFILE_DEV_DEBUG=none cargo build --quiet --locked \
  --manifest-path "$here/rust/Cargo.toml" --target-dir "$folder/rust"

asked="$(cat "$here/requirements.txt" "$here/package-lock.json" | cksum)"
if [ "$(cat "$folder/installed" 2>/dev/null || true)" = "$asked" ]; then
  exit 0
fi

rm -rf "$folder/python" "$folder/node" "$folder/installed"
mkdir -p "$folder/node"
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check --no-deps \
  --requirement "$here/requirements.txt"
cp "$here/package.json" "$here/package-lock.json" "$folder/node/"
npm ci --prefix "$folder/node" --ignore-scripts --no-audit --no-fund --loglevel=error
# Written last: a folder without it is an installation that did not end.
printf '%s\n' "$asked" >"$folder/installed"
