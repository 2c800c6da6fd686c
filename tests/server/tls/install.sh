#!/usr/bin/env bash
# Installs sslscan and testssl.sh, which tests/server/tls/judges/mod.rs asks what the server
# offers, from Debian's packages. On other systems, or without root, it only prints what is missing.

set -euo pipefail

missing=()
command -v sslscan >/dev/null || missing+=(sslscan)
command -v testssl >/dev/null || missing+=(testssl.sh)
if [ ${#missing[@]} = 0 ]; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "tests/server/tls needs ${missing[*]}: install them as the commands sslscan and testssl" >&2
  exit 1
fi
apt-get update --quiet
apt-get install --quiet --yes --no-install-recommends "${missing[@]}"
