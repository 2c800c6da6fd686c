//! Errors for malformed input match the schema of their protocol version.

use corelane_test_support::mcp_schema::expect_valid;
use corelane_test_support::messages::{
    LEGACY, LEGACY_REVISIONS, MODERN, call, echo, endless, initialize, modern, modern_meta,
    request, request_without_params,
};
use corelane_test_support::{TestServer, tcp_options};
use serde_json::{Value, json};

/// Invalid messages that get an error in every protocol version.
fn invalid_messages() -> Vec<String> {
    let mut unserved = echo(1, "x");
    unserved["params"]["_meta"] = modern_meta("1900-01-01");
    let mut incomplete = echo(1, "x");
    incomplete["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": MODERN});
    vec![
        "{".to_owned(),
        "\"\\ud800\"".to_owned(),
        "7".to_owned(),
        "{}".to_owned(),
        "[".repeat(1000),
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":"text","method":7}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":-9223372036854775808,"method":"no/such/method"}"#.to_owned(),
        request_without_params(1, "tools/call").to_string(),
        call("a \"quoted\" id", "nope", json!({})).to_string(),
        request(1, "tools/list", json!({"cursor": "never issued"})).to_string(),
        initialize(1, LEGACY).to_string(),
        unserved.to_string(),
        incomplete.to_string(),
    ]
}

#[test]
fn errors_match_schema_of_protocol_version() {
    let server = TestServer::start(tcp_options());
    for revision in LEGACY_REVISIONS {
        let mut client = server.connect_initialized(revision);
        for text in invalid_messages() {
            let response = client.exchange(&text);
            assert!(response.get("error").is_some(), "{text}: {response}");
            expect_valid(revision, &response, None);
        }
        client.send(endless(1));
        let response = client.exchange(echo(1, "the same id"));
        expect_valid(revision, &response, None);
        client.reset();
    }
    server.close();
}

#[test]
fn tool_errors_match_schema_of_protocol_version() {
    let server = TestServer::start(tcp_options());
    for revision in [LEGACY, MODERN] {
        let mut client = server.connect_initialized(LEGACY);
        let ask: fn(Value) -> Value = if revision == MODERN { modern } else { |legacy| legacy };
        for (tool, arguments) in [
            ("echo", json!({})),
            ("add", json!({"a": 1e308, "b": 1e308})),
            ("slow", json!({"steps": 0, "step_ms": 0})),
            ("hash", json!({"bytes": "many"})),
        ] {
            let response = client.exchange(ask(call(1, tool, arguments)));
            assert_eq!(response["result"]["isError"], true, "{response}");
            expect_valid(revision, &response, Some("tools/call"));
        }
        let response = client.exchange(ask(request(2, "no/such/method", json!({}))));
        expect_valid(revision, &response, None);
    }
    server.close();
}
