#!/usr/bin/env bash
# Installs the browser that tests/page drives: Debian's Chromium, where it is not there yet.
#
# Any Chromium that is called `chromium` will do; elsewhere than on Debian, and without the rights
# to install packages, it says what is missing and leaves the rest to you.

set -euo pipefail

if command -v chromium >/dev/null; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "tests/page needs chromium: install it so that \`chromium\` starts it" >&2
  exit 1
fi
apt-get update --quiet
apt-get install --quiet --yes --no-install-recommends chromium
