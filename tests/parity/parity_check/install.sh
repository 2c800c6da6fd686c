#!/usr/bin/env bash
# Installs nginx, which tests/parity/parity_check/behind_nginx.rs puts in front of a server, from
# Debian's packages. No service of nginx is started, now or at the next boot. On other systems, or
# without root, it only prints what is missing.

set -euo pipefail

# Debian has it in /usr/sbin, which is not in the PATH of every user.
if PATH="$PATH:/usr/sbin" command -v nginx >/dev/null; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "tests/parity/parity_check needs nginx: install it as the command nginx" >&2
  exit 1
fi

# While this program exists and exits with 101, packages start no services (invoke-rc.d).
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi
apt-get update --quiet
apt-get install --quiet --yes --no-install-recommends nginx-light
if command -v systemctl >/dev/null; then
  systemctl --quiet --root=/ disable nginx.service
fi
if command -v update-rc.d >/dev/null; then
  update-rc.d nginx disable
fi
