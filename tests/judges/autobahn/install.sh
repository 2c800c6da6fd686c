#!/usr/bin/env bash
# Installs the Autobahn test suite for tests/judges/autobahn.
#
# It is installed below cargo's target directory and kept; the script does nothing if it matches
# requirements.txt. The suite needs Python 2.7, so it gets a virtual environment on CPython 2.7.18
# of pyenv, which is built if missing.

set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
target="${CARGO_TARGET_DIR:-$here/../../../target}"
dir="$target/tmp/autobahn"
version=2.7.18

wanted="$(cksum <"$here/requirements.txt")"
if [ "$(cat "$dir/installed" 2>/dev/null || true)" = "$wanted" ]; then
  exit 0
fi

root="${PYENV_ROOT:-$HOME/.pyenv}"
pyenv="$(command -v pyenv || echo "$root/bin/pyenv")"
if [ -x "$pyenv" ]; then
  root="$("$pyenv" root)"
fi
python="$root/versions/$version/bin/python"
if [ ! -x "$python" ] && [ -x "$pyenv" ]; then
  "$pyenv" install --skip-existing "$version"
fi
if [ ! -x "$python" ]; then
  echo "tests/judges/autobahn needs CPython $version: install pyenv, which builds it" >&2
  exit 1
fi

# Python 2.7 warns about its age.
export PYTHONWARNINGS=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_PYTHON_VERSION_WARNING=1
rm -rf "$dir"
mkdir -p "$dir"
"$python" -m pip install --quiet --no-deps --target "$dir/virtualenv" \
  "$(grep '^virtualenv==' "$here/requirements.txt")"
"$python" "$dir/virtualenv/virtualenv.py" --quiet --no-download "$dir/python"
grep -v '^virtualenv==' "$here/requirements.txt" >"$dir/requirements.txt"
"$dir/python/bin/python" -m pip install --quiet --no-deps \
  --requirement "$dir/requirements.txt"
# Written last: without it the installation is incomplete.
printf '%s\n' "$wanted" >"$dir/installed"
