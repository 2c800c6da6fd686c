#!/usr/bin/env bash
# Runs every test. Arguments go to `cargo test`, for example `./test.sh --test tidy`.
#
# `cargo test` alone needs only Rust. This script also runs the tests that are ignored there, and
# installs what they need: the official MCP clients, the official conformance suite, the Autobahn
# test suite and Debian's Chromium (tests/judges), promtool (tests/server/http), all below target/
# but the browser, with the MCP servers of others (loadtest/tests/load/other_servers), wrk
# (loadtest/tests/load/agreement.rs), sslscan and testssl.sh (tests/server/tls), and
# nginx, haproxy and Caddy (tests/server/proxies, tests/parity/parity_check), OpenAPI documents and
# PostgreSQL (src/declared), none of them started as services. Messages are also validated
# against the official schemas if MCP_SCHEMA_DIR is a folder of REVISION/schema.json.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

schemas="$PWD/../shared/spec/schema"
if [ -z "${MCP_SCHEMA_DIR:-}" ] && [ -d "$schemas" ]; then
  export MCP_SCHEMA_DIR="$schemas"
fi
tests/judges/interop/install.sh
tests/judges/bundle/install.sh
tests/process/install.sh
tests/judges/conformance/install.sh
tests/judges/autobahn/install.sh
tests/judges/page/install.sh
tests/server/http/install.sh
tests/server/tls/install.sh
tests/server/proxies/install.sh
loadtest/tests/install.sh

# The same server with Corelane and with rmcp, which has a lock file of its own. The latter is also
# one of the servers of loadtest/tests/load/other_servers.
target="${CARGO_TARGET_DIR:-target}"
rmcp=(--locked --manifest-path benches/rmcp/Cargo.toml --target-dir "$target")
if [ $# -eq 0 ]; then
  cargo test "${rmcp[@]}"
elif [ ! -x "$target/debug/shop_rmcp" ]; then
  cargo build "${rmcp[@]}" --bin shop_rmcp
fi

# The client that tests/judges/conformance drives; without arguments all examples are built.
if [ $# -gt 0 ]; then
  cargo build --workspace --locked --example conformance_client
fi

# Arguments after `--` go to the test programs, after the one that includes ignored tests.
cargo_arguments=()
while [ $# -gt 0 ] && [ "$1" != "--" ]; do
  cargo_arguments+=("$1")
  shift
done
[ $# -eq 0 ] || shift
exec cargo test --workspace --locked "${cargo_arguments[@]}" -- --include-ignored "$@"
