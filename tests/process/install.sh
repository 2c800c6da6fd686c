#!/usr/bin/env bash
# Installs what the tests of declarations need: OpenAPI documents of npm, which src/declared/openapi
# makes tools of, below cargo's target directory, and Debian's PostgreSQL, which
# src/declared/sql/postgres starts. The package starts no service of its own: its cluster is not
# created. Needs npm.

set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
target="${CARGO_TARGET_DIR:-$here/../../target}"
dir="$target/tmp/openapi"

command -v npm >/dev/null || {
  echo "tests/process needs npm: install it beside Node.js" >&2
  exit 1
}

wanted="$(cksum <"$here/openapi/package-lock.json")"
if [ "$(cat "$dir/installed" 2>/dev/null || true)" != "$wanted" ]; then
  rm -rf "$dir"
  mkdir -p "$dir"
  cp "$here/openapi/package.json" "$here/openapi/package-lock.json" "$dir/"
  npm ci --prefix "$dir" --ignore-scripts --no-audit --no-fund --loglevel=error
  # Written last: without it the installation is incomplete.
  printf '%s\n' "$wanted" >"$dir/installed"
fi

if compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "src/declared/sql/postgres needs PostgreSQL: install it below /usr/lib/postgresql" >&2
  exit 1
fi
# Without this file the package creates and starts a cluster.
mkdir -p /etc/postgresql-common/createcluster.d
[ -e /etc/postgresql-common/createcluster.d/no-cluster.conf ] ||
  echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/no-cluster.conf
apt-get update --quiet
apt-get install --quiet --yes --no-install-recommends postgresql
