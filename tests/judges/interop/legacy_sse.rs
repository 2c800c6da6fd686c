//! HTTP+SSE of MCP 2024-11-05, for clients without Streamable HTTP.

use crate::interop::changes::expect_changes_over;
use crate::interop::client_requests::expect_client_requests;
use crate::interop::sdk::{Era, LEGACY, Sdk, Transport, run};
use crate::interop::session::expect_session;

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_completes_session_over_legacy_sse() {
    expect_all(Sdk::Python);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_completes_session_over_legacy_sse() {
    expect_all(Sdk::TypeScript);
}

/// Calls, client requests and change notifications on the one SSE stream.
fn expect_all(sdk: Sdk) {
    let summary = |feature| run(sdk, feature, Era::Legacy.mode(), Transport::LegacySse, &[]);
    expect_session(&summary("session"), LEGACY);
    expect_client_requests(&summary("client_requests"), Era::Legacy);
    expect_changes_over(Transport::LegacySse, sdk, Era::Legacy);
}
