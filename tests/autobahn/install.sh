#!/usr/bin/env bash
# Installs the Autobahn test suite for tests/autobahn.
#
# It goes below cargo's target folder and stays there: a run that finds what the list asks for does
# nothing. The suite was written for Python 2.7 and never ported, so that it gets a virtual
# environment on the CPython 2.7.18 of pyenv, which builds one where it has none yet.

set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
target="${CARGO_TARGET_DIR:-$here/../../target}"
folder="$target/tmp/autobahn"
version=2.7.18

asked="$(cksum <"$here/requirements.txt")"
if [ "$(cat "$folder/installed" 2>/dev/null || true)" = "$asked" ]; then
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
  echo "tests/autobahn needs CPython $version: install pyenv, which builds it" >&2
  exit 1
fi

# Its maintenance has ended; that is known.
export PYTHONWARNINGS=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_PYTHON_VERSION_WARNING=1
rm -rf "$folder"
mkdir -p "$folder"
"$python" -m pip install --quiet --no-deps --target "$folder/virtualenv" \
  "$(grep '^virtualenv==' "$here/requirements.txt")"
"$python" "$folder/virtualenv/virtualenv.py" --quiet --no-download "$folder/python"
grep -v '^virtualenv==' "$here/requirements.txt" >"$folder/requirements.txt"
"$folder/python/bin/python" -m pip install --quiet --no-deps \
  --requirement "$folder/requirements.txt"
# Written last: a folder without it is an installation that did not end.
printf '%s\n' "$asked" >"$folder/installed"
