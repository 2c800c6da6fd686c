#!/usr/bin/env bash
# Installs wrk, which tests/agreement.rs compares corelane-load with, from Debian's packages.
#
# Any wrk 4 in the PATH will do. Without apt-get or root privileges the script only prints an error.

set -euo pipefail

if command -v wrk >/dev/null; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "loadtest/tests/agreement needs wrk: install wrk 4 in the PATH" >&2
  exit 1
fi
apt-get update --quiet
apt-get install --quiet --yes --no-install-recommends wrk
