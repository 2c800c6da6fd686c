//! Sessions over WebSocket. Only version 1 of the TypeScript SDK has that transport; version 2
//! borrows it for the modern era.

use crate::interop::changes::expect_changes_over;
use crate::interop::client_requests::expect_client_requests;
use crate::interop::progress_and_logging::expect_progress_and_logs;
use crate::interop::sdk::{Era, LEGACY, MODERN, Sdk, Transport, run};
use crate::interop::session::expect_session;

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_completes_legacy_session_over_websocket() {
    expect_all(Era::Legacy, LEGACY);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_completes_modern_session_over_websocket() {
    expect_all(Era::Modern, MODERN);
}

/// Calls, progress, log messages, client requests and changes, each over its own connection.
fn expect_all(era: Era, revision: &str) {
    let (sdk, transport) = (Sdk::TypeScript, Transport::WebSocket);
    let summary = |feature| run(sdk, feature, era.mode(), transport, &[]);
    expect_session(&summary("session"), revision);
    expect_progress_and_logs(&summary("progress_and_logging"), era);
    expect_client_requests(&summary("client_requests"), era);
    expect_changes_over(transport, sdk, era);
}
