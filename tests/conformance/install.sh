#!/usr/bin/env bash
# Installs the official conformance suite for tests/conformance.
#
# It goes below cargo's target folder and stays there: a run that finds what the lock file asks for
# does nothing. The suite needs a newer Node.js than many systems have, so that Node.js 24 comes
# with it: as the packages `node-linux-*`, which is what the package `node` fetches by a script of
# its own, past the lock file. Needs npm, with whatever Node.js it runs on.

set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
target="${CARGO_TARGET_DIR:-$here/../../target}"
folder="$target/tmp/conformance"

command -v npm >/dev/null || {
  echo "tests/conformance needs npm: install it beside Node.js" >&2
  exit 1
}

asked="$(cksum <"$here/package-lock.json")"
if [ "$(cat "$folder/installed" 2>/dev/null || true)" = "$asked" ]; then
  exit 0
fi

rm -rf "$folder"
mkdir -p "$folder"
cp "$here/package.json" "$here/package-lock.json" "$folder/"
npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error
# Written last: a folder without it is an installation that did not end.
printf '%s\n' "$asked" >"$folder/installed"
