#!/usr/bin/env bash
# Installs what the ignored tests of loadtest need: wrk, which tests/load/agreement.rs compares
# corelane-load with, from Debian's packages, and the servers of tests/load/other_servers.
#
# Any wrk 4 in the PATH will do. Without apt-get or root privileges the script only prints an error.
# The servers are installed below cargo's target directory and kept; nothing is done if they match
# the lock files. They need python3 with its venv module, Node.js 20 or newer, and npm.

set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/load/other_servers"
dir="${CARGO_TARGET_DIR:-$here/../../../../target}/tmp/other_servers"

wanted="$(cat "$here/requirements.txt" "$here/package-lock.json" | cksum)"
if [ "$(cat "$dir/installed" 2>/dev/null || true)" != "$wanted" ]; then
  for program in python3 node npm; do
    command -v "$program" >/dev/null || {
      echo "loadtest/tests/load/other_servers needs $program" >&2
      exit 1
    }
  done
  rm -rf "$dir"
  mkdir -p "$dir/node"
  python3 -m venv "$dir/python"
  "$dir/python/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    --requirement "$here/requirements.txt"
  # What uvx starts, in an environment of its own: then it needs no network.
  UV_TOOL_DIR="$dir/uv/tools" UV_TOOL_BIN_DIR="$dir/uv/bin" UV_CACHE_DIR="$dir/uv/cache" \
    "$dir/python/bin/uv" tool install --quiet --python "$(command -v python3)" \
    --constraints "$here/requirements.txt" mcp-server-time
  cp "$here/package.json" "$here/package-lock.json" "$dir/node/"
  npm ci --prefix "$dir/node" --ignore-scripts --no-audit --no-fund --loglevel=error
  # Written last: without it the installation is incomplete.
  printf '%s\n' "$wanted" >"$dir/installed"
fi

if command -v wrk >/dev/null; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "loadtest/tests/load/agreement needs wrk: install wrk 4 in the PATH" >&2
  exit 1
fi
apt-get update --quiet
apt-get install --quiet --yes --no-install-recommends wrk
