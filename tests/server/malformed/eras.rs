//! Required metadata of modern requests, and modern and legacy requests on one connection.

use corelane_test_support::messages::{
    LEGACY, MODERN, call, echo, expect_error, initialize, modern, modern_meta, notification,
    request, request_without_params, result_text,
};
use corelane_test_support::{TestServer, tcp_options};
use serde_json::{Value, json};

#[test]
fn modern_and_legacy_requests_share_one_connection() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_tcp();
    let is_modern = |response: &Value| response["result"]["resultType"] == "complete";
    // A modern request is served before and after the handshake.
    let response = client.exchange(modern(echo(1, "one")));
    assert_eq!((result_text(&response), is_modern(&response)), ("one", true));
    expect_error(&client.exchange(echo(2, "too early")), -32600, Some(json!(2)));
    assert_eq!(
        client.exchange(initialize(3, "2024-11-05"))["result"]["protocolVersion"],
        "2024-11-05"
    );
    let response = client.exchange(modern(echo(4, "two")));
    assert_eq!((result_text(&response), is_modern(&response)), ("two", true));
    assert!(!is_modern(&client.exchange(echo(5, "early"))));
    client.send(notification("notifications/initialized"));
    let legacy = client.exchange(call(6, "add", json!({"a": 1, "b": 2})));
    assert!(!is_modern(&legacy) && legacy["result"]["structuredContent"].is_null(), "{legacy}");
    let response = client.exchange(modern(call(7, "add", json!({"a": 1, "b": 2}))));
    assert!(is_modern(&response), "{response}");
    assert_eq!(response["result"]["structuredContent"], json!({"sum": 3.0}));
    let discovered = client.exchange(modern(request(8, "server/discover", json!({}))));
    assert_eq!(discovered["result"]["supportedVersions"][0], MODERN, "{discovered}");
    assert!(!is_modern(&client.exchange(request_without_params(9, "tools/list"))));
    assert!(is_modern(&client.exchange(modern(request(10, "tools/list", json!({}))))));
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn deferred_responses_keep_version_of_their_request() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized("2024-11-05");
    let text = call(1, "hash", json!({"bytes": 1000}));
    client.send(&text);
    let legacy = client.receive();
    assert!(legacy["result"]["structuredContent"].is_null(), "{legacy}");
    client.send(modern(text));
    let later = client.receive();
    assert_eq!(later["result"]["resultType"], "complete", "{later}");
    assert_eq!(later["result"]["structuredContent"]["bytes"], 1000, "{later}");
    drop(client);
    server.close();
}

#[test]
fn unsupported_version_error_lists_supported_versions() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_tcp();
    // Legacy versions are negotiated by `initialize` and are invalid in `_meta`.
    for requested in ["", "1900-01-01", "2099-12-31", "2026-07-28 ", "draft", LEGACY, "2024-11-05"]
    {
        for mut text in [
            echo(1, "x"),
            request(1, "server/discover", json!({})),
            request_without_params(1, "nope"),
        ] {
            text["params"]["_meta"] = modern_meta(requested);
            let response = client.exchange(text);
            expect_error(&response, -32022, Some(json!(1)));
            let data = &response["error"]["data"];
            assert_eq!(data["requested"], requested, "{response}");
            let supported = data["supported"].as_array().expect("array");
            assert!(supported.contains(&json!(MODERN)), "{response}");
        }
    }
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn incomplete_modern_metadata_is_invalid_params() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_tcp();
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let log_level = "io.modelcontextprotocol/logLevel";
    for meta in [
        json!({version: MODERN}),
        json!({version: MODERN, capabilities: null}),
        json!({version: MODERN, capabilities: []}),
        json!({version: MODERN, capabilities: "all"}),
        json!({version: null, capabilities: {}}),
        json!({version: 20_260_728, capabilities: {}}),
        json!({version: [MODERN], capabilities: {}}),
        json!({version: MODERN, capabilities: {}, log_level: "loud"}),
        json!({version: MODERN, capabilities: {}, log_level: 7}),
        json!({version: MODERN, capabilities: {}, "progressToken": 0.5}),
    ] {
        let mut text = echo("m", "x");
        text["params"]["_meta"] = meta;
        expect_error(&client.exchange(text), -32602, Some(json!("m")));
        client.ping();
    }
    let twice = modern(echo(1, "x")).to_string();
    let key = format!(r#""{capabilities}":{{}}"#);
    let twice = twice.replace(&key, &format!("{key},{key}"));
    expect_error(&client.exchange(twice), -32602, Some(json!(1)));
    // Discovery needs no handshake but modern metadata.
    expect_error(
        &client.exchange(request_without_params(2, "server/discover")),
        -32602,
        Some(json!(2)),
    );
    drop(client);
    server.close();
}

#[test]
fn methods_of_other_era_are_not_found() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    expect_error(&client.exchange(modern(request(1, "ping", json!({})))), -32601, Some(json!(1)));
    expect_error(&client.exchange(modern(initialize(2, LEGACY))), -32601, Some(json!(2)));
    expect_error(
        &client.exchange(request_without_params(3, "server/discover")),
        -32601,
        Some(json!(3)),
    );
    client.ping();
    drop(client);
    server.close();
}
