#!/usr/bin/env bash
# Installs the browser for tests/judges/page: Debian's Chromium, if there is no command `chromium`.
#
# On other systems, or without root, it only prints what is missing.

set -euo pipefail

if command -v chromium >/dev/null; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "tests/judges/page needs chromium: install it so that \`chromium\` starts it" >&2
  exit 1
fi
apt-get update --quiet
apt-get install --quiet --yes --no-install-recommends chromium
