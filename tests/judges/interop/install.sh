#!/usr/bin/env bash
# Installs the official MCP clients of Python, Rust and TypeScript for tests/judges/interop, and
# what servers with the TypeScript SDK need, for tests/client.
#
# They are installed below cargo's target directory and kept; the script does nothing if they match
# the lock files. Needs python3 with its venv module, Node.js 20 or newer, and npm; the Rust client
# is built by cargo with its own target directory, so its dependencies are compiled once.

set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
target="${CARGO_TARGET_DIR:-$here/../../../target}"
dir="$target/tmp/interop"

need() {
  command -v "$1" >/dev/null || {
    echo "tests/judges/interop needs $1: $2" >&2
    exit 1
  }
}
need python3 "install Python 3.10 or newer with its venv module"
need node "install Node.js 20 or newer"
need npm "install npm beside Node.js"
if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
  echo "tests/judges/interop needs Node.js 20 or newer; this is $(node --version)" >&2
  exit 1
fi

# Without debug info: it is never debugged.
CARGO_PROFILE_DEV_DEBUG=none cargo build --quiet --locked \
  --manifest-path "$here/rust/Cargo.toml" --target-dir "$dir/rust"

wanted="$(cat "$here/requirements.txt" "$here/package-lock.json" | cksum)"
if [ "$(cat "$dir/installed" 2>/dev/null || true)" = "$wanted" ]; then
  exit 0
fi

rm -rf "$dir/python" "$dir/node" "$dir/installed"
mkdir -p "$dir/node"
python3 -m venv "$dir/python"
"$dir/python/bin/pip" install --quiet --disable-pip-version-check --no-deps \
  --requirement "$here/requirements.txt"
cp "$here/package.json" "$here/package-lock.json" "$dir/node/"
npm ci --prefix "$dir/node" --ignore-scripts --no-audit --no-fund --loglevel=error
# Written last: without it the installation is incomplete.
printf '%s\n' "$wanted" >"$dir/installed"
