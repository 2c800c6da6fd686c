//! Complete sessions of every protocol version over TCP.

use corelane_test_support::ServeProcess;
use corelane_test_support::messages::{LEGACY_REVISIONS, MODERN, notification};
use serde_json::{Value, json};

use crate::CORELANE;
use crate::mcp_client::{McpClient, initialize_params};

#[test]
fn legacy_versions_complete_a_session() {
    let server = ServeProcess::tcp(CORELANE, &[]);
    for revision in LEGACY_REVISIONS {
        let mut session = McpClient::legacy(server.connect(), revision);
        session.use_all_tools();
        assert_eq!(session.expect_result("ping", json!({})), json!({}));
    }
}

#[test]
fn modern_version_completes_session_without_handshake() {
    let server = ServeProcess::tcp(CORELANE, &[]);
    let mut session = McpClient::modern(server.connect());
    session.use_all_tools();
    let discovered = session.expect_result("server/discover", json!({}));
    let supported = discovered["supportedVersions"].as_array().expect("array");
    assert!(supported.iter().any(|revision| revision == MODERN), "{supported:?}");
    assert!(discovered["capabilities"]["tools"].is_object(), "{discovered}");
    for removed in ["initialize", "ping", "logging/setLevel"] {
        assert_eq!(session.expect_error_code(removed, json!({})), -32601, "{removed}");
    }
}

#[test]
fn both_eras_share_one_connection() {
    let server = ServeProcess::tcp(CORELANE, &[]);
    let mut legacy = McpClient::legacy(server.connect(), "2025-11-25");
    legacy.check_echo("legacy");
    let mut modern = McpClient::modern(legacy.peer);
    modern.check_echo("modern");
    let mut legacy = McpClient::without_handshake(modern.peer, "2025-11-25");
    legacy.check_echo("legacy again");
}

#[test]
fn unknown_version_negotiates_newest_legacy_version() {
    let server = ServeProcess::tcp(CORELANE, &[]);
    for requested in ["1900-01-01", "2099-12-31"] {
        let mut session = McpClient::without_handshake(server.connect(), "2025-11-25");
        let result = session.expect_result("initialize", initialize_params(requested));
        assert_eq!(result["protocolVersion"], "2025-11-25");
    }
}

#[test]
fn only_ping_is_served_before_initialize() {
    let server = ServeProcess::tcp(CORELANE, &[]);
    let mut session = McpClient::without_handshake(server.connect(), "2025-11-25");
    assert_eq!(session.expect_error_code("tools/list", json!({})), -32600);
    assert_eq!(session.expect_error_code("tools/call", json!({"name": "echo"})), -32600);
    assert_eq!(session.expect_result("ping", json!({})), json!({}));
    session.expect_result("initialize", initialize_params("2025-11-25"));
    session.expect_result("tools/list", json!({}));
    session.peer.send(notification("notifications/initialized"));
    session.expect_result("tools/list", json!({}));
    assert_eq!(session.expect_error_code("initialize", initialize_params("2025-11-25")), -32600);
}

#[test]
fn incomplete_modern_metadata_is_rejected() {
    let server = ServeProcess::tcp(CORELANE, &[]);
    let mut session = McpClient::modern(server.connect());
    let mut ask = |meta: Value| {
        let params = json!({"_meta": meta});
        session.peer.send(json!({
            "jsonrpc": "2.0", "id": "meta", "method": "tools/list", "params": params,
        }));
        session.receive(Some("tools/list"))["error"].take()
    };
    let revision = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    assert_eq!(ask(json!({revision: MODERN}))["code"], -32602);
    let unsupported = ask(json!({revision: "1900-01-01", capabilities: {}}));
    assert_eq!(unsupported["code"], -32022);
    assert_eq!(unsupported["data"]["requested"], "1900-01-01");
    let supported = unsupported["data"]["supported"].as_array().expect("array");
    assert!(supported.iter().any(|revision| revision == MODERN), "{unsupported}");
}

#[test]
fn request_ids_are_echoed_unchanged() {
    let server = ServeProcess::tcp(CORELANE, &[]);
    let mut session = McpClient::legacy(server.connect(), "2025-11-25");
    let ids = [json!(0), json!(-7), json!(i64::MAX), json!("7"), json!(""), json!("ünï \"☃\"")];
    for id in ids {
        session.peer.send(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        assert_eq!(session.receive(Some("ping"))["id"], id);
    }
}

#[test]
fn invalid_input_gets_error_in_every_version() {
    let server = ServeProcess::tcp(CORELANE, &[]);
    for revision in LEGACY_REVISIONS.into_iter().chain([MODERN]) {
        let mut session = McpClient::connect(server.connect(), revision);
        for (line, code) in [
            (&b"{\"jsonrpc\":"[..], -32700),
            (b"nonsense", -32700),
            (b"{}", -32600),
            (b"7", -32600),
            (b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", -32600),
        ] {
            session.peer.send_line(line);
            // Without a handshake errors match the newest schemas.
            let response = session.receive(None);
            assert_eq!(response["error"]["code"], code, "{revision}: {response}");
        }
        session.check_echo("alive");
    }
}

#[test]
fn batch_is_supported_by_2025_03_26_only() {
    let server = ServeProcess::tcp(CORELANE, &[]);
    let ping = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let batch = json!([ping(1), ping(2)]);
    for revision in LEGACY_REVISIONS {
        let mut session = McpClient::legacy(server.connect(), revision);
        session.peer.send(&batch);
        if revision == "2025-03-26" {
            let response = session.peer.receive();
            let ids: Vec<&Value> =
                response.as_array().into_iter().flatten().map(|one| &one["id"]).collect();
            assert_eq!(ids, [&json!(1), &json!(2)], "{response}");
        } else {
            assert_eq!(session.receive(None)["error"]["code"], -32600, "{revision}");
        }
    }
}

#[test]
fn cancelled_call_sends_no_further_messages() {
    let server = ServeProcess::tcp(CORELANE, &[]);
    for revision in LEGACY_REVISIONS.into_iter().chain([MODERN]) {
        let mut session = McpClient::connect(server.connect(), revision);
        let (id, _) = session.start_slow(1_000, 20);
        session.receive(None);
        let params = json!({"requestId": id, "reason": "enough"});
        let method = "notifications/cancelled";
        session.peer.send(json!({"jsonrpc": "2.0", "method": method, "params": params}));
        // Progress already sent may arrive before the first echo, but not after it.
        session.check_echo("alive");
        session.notifications.clear();
        session.check_echo("alive");
        assert!(session.notifications.is_empty(), "{:?}", session.notifications);
    }
}

#[test]
fn many_connections_are_served_concurrently() {
    let server = ServeProcess::tcp(CORELANE, &[]);
    let mut sessions: Vec<McpClient> = (0..64)
        .map(|index| McpClient::connect(server.connect(), [LEGACY_REVISIONS[3], MODERN][index % 2]))
        .collect();
    let ids: Vec<u64> = sessions
        .iter_mut()
        .enumerate()
        .map(|(index, session)| {
            let arguments = json!({"message": format!("number {index}")});
            session.send_request("tools/call", json!({"name": "echo", "arguments": arguments}))
        })
        .collect();
    for (index, (session, id)) in sessions.iter_mut().zip(ids).enumerate() {
        let response = session.receive_response(id, "tools/call");
        let text = &response["result"]["content"][0]["text"];
        assert_eq!(*text, format!("number {index}"));
    }
}
