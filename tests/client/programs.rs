//! Servers that the client starts as programs.

use corelane::Client;
use corelane::client::{ClientErrorKind, Program};
use corelane::testing::block_on;
use serde_json::json;

/// The server of this library.
const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");

#[test]
fn program_serves_calls_over_its_standard_streams() {
    let program = Program::new(CORELANE).arg("stdio").arg("--log").arg("off");
    let client = Client::builder(program).connect_blocking().unwrap();
    let result = client.call_tool("echo", &json!({ "message": "hi" })).wait().unwrap();
    assert_eq!(result.text(), "hi");
    block_on(client.close());
}

#[test]
fn program_that_cannot_start_fails_connect() {
    let error = Client::builder(Program::new("/no/such/program")).connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Connect);
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}

#[test]
fn program_that_ends_fails_the_handshake() {
    let error = Client::builder("stdio:false").connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Closed, "{error}");
}
