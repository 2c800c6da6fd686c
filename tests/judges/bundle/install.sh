#!/usr/bin/env bash
# Installs the official tool for MCP bundles (MCPB) for tests/judges/bundle.
#
# It is installed below cargo's target directory and kept; the script does nothing if it matches the
# lock file. Needs npm.

set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
target="${CARGO_TARGET_DIR:-$here/../../../target}"
dir="$target/tmp/bundle"

command -v npm >/dev/null || {
  echo "tests/judges/bundle needs npm: install it beside Node.js" >&2
  exit 1
}

wanted="$(cksum <"$here/package-lock.json")"
if [ "$(cat "$dir/installed" 2>/dev/null || true)" = "$wanted" ]; then
  exit 0
fi

rm -rf "$dir"
mkdir -p "$dir"
cp "$here/package.json" "$here/package-lock.json" "$dir/"
npm ci --prefix "$dir" --ignore-scripts --no-audit --no-fund --loglevel=error
# Written last: without it the installation is incomplete.
printf '%s\n' "$wanted" >"$dir/installed"
