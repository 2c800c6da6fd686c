#!/usr/bin/env bash
# Installs promtool, which tests/server/http/operators.rs checks the metrics with, from Debian's
# package `prometheus`.
#
# Any promtool in the PATH will do. The package is only unpacked, below cargo's target directory, so
# that no Prometheus server starts. Without apt-get the script only prints an error.

set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dir="${CARGO_TARGET_DIR:-$here/../../../target}/tmp/promtool"

if command -v promtool >/dev/null || [ -x "$dir/usr/bin/promtool" ]; then
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "tests/server/http needs promtool: install it in the PATH" >&2
  exit 1
fi
mkdir -p "$dir"
cd "$dir"
if [ "$(id -u)" = 0 ]; then
  apt-get update --quiet
fi
apt-get download --quiet prometheus
dpkg-deb --extract prometheus_*.deb .
rm prometheus_*.deb
