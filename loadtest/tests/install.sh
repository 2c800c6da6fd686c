#!/usr/bin/env bash
# Installs the load generator that tests/agreement.rs holds ours against: Debian's wrk, where it is
# not there yet.
#
# Any wrk of version 4 that is called `wrk` will do; elsewhere than on Debian, and without the
# rights to install packages, it says what is missing and leaves the rest to you.

set -euo pipefail

if command -v wrk >/dev/null; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "loadtest/tests/agreement needs wrk: install it so that \`wrk\` starts it" >&2
  exit 1
fi
apt-get update --quiet
apt-get install --quiet --yes --no-install-recommends wrk
