//! `notifications/message`: log messages from the requested level on.

use corelane::Features;
use corelane_protocol::eras::LoggingLevel;
use corelane_test_support::mcp_schema::expect_valid;
use corelane_test_support::messages::{
    LEGACY, MODERN, call, expect_error, modern, request, request_without_params,
};
use corelane_test_support::{LineClient, TestServer, over_each_ring, tcp_options};
use serde_json::{Value, json};

use crate::malformed::interactive_catalog;

/// Every level, least severe first.
fn all_levels() -> Vec<&'static str> {
    LoggingLevel::ALL.iter().map(|(_, name)| *name).collect()
}

/// Sends a call and returns the levels of the log messages before its response.
fn logged_levels(client: &mut LineClient, revision: &str, call: &Value) -> Vec<String> {
    client.send(call);
    let mut logged = Vec::new();
    loop {
        let message = client.receive();
        expect_valid(revision, &message, None);
        if message["id"] == call["id"] {
            assert_eq!(message["result"]["content"][0]["text"], "logged", "{message}");
            return logged;
        }
        assert_eq!(message["method"], "notifications/message", "{message}");
        logged.push(message["params"]["level"].as_str().expect("level").to_owned());
    }
}

#[test]
fn legacy_session_gets_logs_from_set_level() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        for tool in ["log", "log_blocking"] {
            let mut client = server.connect_initialized(LEGACY);
            assert_eq!(
                logged_levels(&mut client, LEGACY, &call(1, tool, json!({}))),
                all_levels()[1..]
            );
            for (from, level) in all_levels().into_iter().enumerate() {
                let set = client.exchange(request(2, "logging/setLevel", json!({"level": level})));
                assert_eq!(set["result"], json!({}), "{set}");
                assert_eq!(
                    logged_levels(&mut client, LEGACY, &call(3, tool, json!({}))),
                    all_levels()[from..]
                );
            }
            // The level is a property of the session.
            let mut other = server.connect_initialized("2024-11-05");
            let logged = logged_levels(&mut other, "2024-11-05", &call(1, tool, json!({})));
            assert_eq!(logged, all_levels()[1..]);
        }
        server.close();
    });
}

#[test]
fn modern_request_gets_logs_from_requested_level() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut client = server.connect_initialized(LEGACY);
        client.exchange(request(0, "logging/setLevel", json!({"level": "debug"})));
        for tool in ["log", "log_blocking"] {
            let silent = modern(call(1, tool, json!({})));
            assert_eq!(logged_levels(&mut client, MODERN, &silent), Vec::<String>::new());
            for (from, level) in all_levels().into_iter().enumerate() {
                let mut wanted = modern(call(2, tool, json!({})));
                wanted["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!(level);
                assert_eq!(logged_levels(&mut client, MODERN, &wanted), all_levels()[from..]);
            }
            assert_eq!(logged_levels(&mut client, MODERN, &silent), Vec::<String>::new());
        }
        drop(client);
        server.close();
    });
}

#[test]
fn invalid_log_level_is_rejected_without_effect() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = server.connect_initialized(LEGACY);
    for params in [
        json!({"level": "loud"}),
        json!({"level": "INFO"}),
        json!({"level": 3}),
        json!({"level": null}),
        json!({}),
        json!([]),
    ] {
        let response = client.exchange(request(1, "logging/setLevel", params));
        expect_error(&response, -32602, Some(json!(1)));
    }
    expect_error(
        &client.exchange(request_without_params(2, "logging/setLevel")),
        -32602,
        Some(json!(2)),
    );
    assert_eq!(logged_levels(&mut client, LEGACY, &call(3, "log", json!({}))), all_levels()[1..]);
    let mut modern_call = modern(call(4, "log", json!({})));
    modern_call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("loud");
    expect_error(&client.exchange(modern_call), -32602, Some(json!(4)));
    // Not found in the modern era, and where the catalog withholds logging.
    let set = request(5, "logging/setLevel", json!({"level": "info"}));
    expect_error(&client.exchange(modern(set.clone())), -32601, Some(json!(5)));
    let without_logging = interactive_catalog::catalog()
        .to_builder()
        .disable_features(Features::LOGGING)
        .build()
        .expect("catalog");
    let without_logging = TestServer::with_catalog(tcp_options(), without_logging);
    expect_error(
        &without_logging.connect_initialized(LEGACY).exchange(set),
        -32601,
        Some(json!(5)),
    );
    drop(client);
    server.close();
    without_logging.close();
}
