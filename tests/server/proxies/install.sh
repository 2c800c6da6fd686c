#!/usr/bin/env bash
# Installs haproxy, nginx and Caddy, which tests/server/proxies/documented.rs puts in front of a
# server, or those of them that are arguments, from Debian's packages. None of their services is
# started, now or at the next boot. On other systems, or without root, it only prints what is
# missing.

set -euo pipefail

# Debian has some of them in /usr/sbin, which is not in the PATH of every user.
PATH="$PATH:/usr/sbin"
if [ $# -eq 0 ]; then
  set -- haproxy nginx caddy
fi
packages=()
for program; do
  command -v "$program" >/dev/null || packages+=("${program/%nginx/nginx-light}")
done
if [ ${#packages[@]} -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "the tests behind proxies need the commands $*: install them" >&2
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
apt-get install --quiet --yes --no-install-recommends "${packages[@]}"
for package in "${packages[@]}"; do
  service="${package%-light}"
  if command -v systemctl >/dev/null; then
    systemctl --quiet --root=/ disable "$service.service"
  fi
  if command -v update-rc.d >/dev/null && [ -e "/etc/init.d/$service" ]; then
    update-rc.d "$service" disable
  fi
done
