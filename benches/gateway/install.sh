#!/usr/bin/env bash
# Installs the gateways that benches/gateway measures beside Corelane's, from npm, PyPI and
# crates.io, below cargo's target directory. What is there is kept. A gateway that cannot be
# installed is named; the bench then leaves it out.
#
# Needs Node.js 20 or newer with npm, python3 with its venv module, and cargo. ContextForge needs
# Python 3.12 or newer: PYTHON312 names it where python3 is older.

set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dir="${CARGO_TARGET_DIR:-$here/../../target}/tmp/gateways"
mkdir -p "$dir"
dir="$(cd "$dir" && pwd)"
failed=0

missing() {
  echo "not installed: $1" >&2
  failed=1
}

node_packages() {
  mkdir -p "$dir/node"
  cat >"$dir/node/package.json" <<'JSON'
{
  "private": true,
  "dependencies": { "mcp-proxy": "6.7.19", "mcp-remote": "0.15.1", "supergateway": "4.0.0" }
}
JSON
  npm install --prefix "$dir/node" --ignore-scripts --no-audit --no-fund --loglevel=error
}

# python_package FOLDER REQUIREMENT PYTHON
python_package() {
  [ -e "$dir/$1/installed" ] && return
  "$3" -m venv "$dir/$1" &&
    "$dir/$1/bin/pip" install --quiet --disable-pip-version-check "$2" &&
    touch "$dir/$1/installed"
}

python312="${PYTHON312:-$(command -v python3.12 || command -v python3)}"
[ -x "$dir/node/node_modules/.bin/mcp-proxy" ] || node_packages ||
  missing "npm mcp-proxy 6.7.19, mcp-remote 0.15.1, supergateway 4.0.0"
python_package python mcp-proxy==0.13.0 python3 || missing "PyPI mcp-proxy 0.13.0"
python_package mcpo mcpo==0.0.20 python3 || missing "PyPI mcpo 0.0.20"
python_package contextforge mcp-contextforge-gateway==1.1.0 "$python312" ||
  missing "ContextForge 1.1.0, which needs Python 3.12"
[ -x "$dir/cargo/bin/mcp-proxy" ] ||
  CARGO_TARGET_DIR="$dir/cargo-target" cargo install --quiet --locked mcp-proxy --version 0.6.0 \
    --features protocol-2026-07-28 --root "$dir/cargo" ||
  missing "crate mcp-proxy 0.6.0"
exit "$failed"
