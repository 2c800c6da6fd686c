#!/usr/bin/env bash
# Every test of the repository. Arguments go to `cargo test`, for instance `./test.sh --test tidy`.
#
# Installs the official MCP clients that tests/interop drives, the official suite that
# tests/conformance runs, the Autobahn test suite of tests/autobahn (all below target, once), the
# browser of tests/page and the wrk of loadtest/tests/agreement.rs, and finds the official schemas
# in MCP_SCHEMA_DIR, a folder of REVISION/schema.json. Without that folder messages are judged by
# the types of the schema crates alone.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

schemas="$PWD/../shared/spec/schema"
if [ -z "${MCP_SCHEMA_DIR:-}" ] && [ -d "$schemas" ]; then
  export MCP_SCHEMA_DIR="$schemas"
fi
tests/interop/install.sh
tests/conformance/install.sh
tests/autobahn/install.sh
tests/page/install.sh
loadtest/tests/install.sh
exec cargo test --workspace --locked "$@"
