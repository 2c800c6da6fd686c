//! Calls over Streamable HTTP to the server of this library, and over connections that end.

use std::sync::mpsc;
use std::time::Duration;

use corelane::Client;
use corelane::client::{
    CallToolResult, ClientBuilder, ClientError, ClientErrorKind, EraPreference, Request,
};
use corelane::model::Revision;
use corelane::testing::block_on;
use corelane_test_support::{TestServer, http_options};
use serde_json::json;

use super::http_peer::{HttpPeer, http_response, text_result};
use super::{ERAS, expect_revision};

/// A client of the HTTP listener of `server`.
pub(crate) fn client_of(server: &TestServer) -> ClientBuilder {
    Client::builder(format!("http://{}/mcp", server.http()).as_str())
}

/// Calls a tool of a peer.
fn call(client: &Client) -> Result<String, ClientError> {
    client.call_tool("a", &json!({})).wait().map(|result| result.text())
}

#[test]
fn call_tool_over_http_in_every_era() {
    let server = TestServer::start(http_options());
    for era in ERAS {
        let client = client_of(&server).era(era).connect_blocking().unwrap();
        for _ in 0..3 {
            let result = client.call_tool("echo", &json!({ "message": "hi" })).wait().unwrap();
            assert_eq!(result.text(), "hi", "{era:?}");
        }
        expect_revision(&client, era);
        block_on(client.close());
    }
}

#[test]
fn lists_and_reads_over_http() {
    let server = TestServer::with_test_tools(http_options());
    for era in [EraPreference::Modern, EraPreference::Legacy(Revision::V2025_11_25)] {
        let client = client_of(&server).era(era).connect_blocking().unwrap();
        assert!(block_on(client.list_tools()).unwrap().iter().any(|tool| tool.name == "echo"));
        let resources = block_on(client.list_resources()).unwrap();
        let read = client.read_resource(&resources[0].uri).wait().unwrap();
        assert_eq!(read.contents[0].uri, resources[0].uri);
        assert!(!block_on(client.list_prompts()).unwrap().is_empty());
    }
}

#[test]
fn failures_over_http_have_their_kinds() {
    let server = TestServer::with_test_tools(http_options());
    let failure = |call: Request<CallToolResult>| call.wait().unwrap_err().kind();
    for era in [EraPreference::Modern, EraPreference::Legacy(Revision::V2025_11_25)] {
        let client = client_of(&server).era(era).connect_blocking().unwrap();
        let unknown = failure(client.call_tool("no such tool, 世界", &json!({})));
        assert_eq!(unknown, ClientErrorKind::Rpc { code: -32602 });
        let slow = client.call_tool("until-cancelled", &json!({}));
        assert_eq!(failure(slow.timeout(Duration::from_millis(50))), ClientErrorKind::Timeout);
        assert_eq!((server.next_signal(), server.next_signal()), ("begun", "cancelled"));
        let result = client.call_tool("echo", &json!({ "message": "still" })).wait().unwrap();
        assert_eq!(result.text(), "still");
    }
}

#[test]
fn concurrent_calls_share_ten_connections() {
    let server = TestServer::start(http_options());
    let client = client_of(&server).connect_lazy().unwrap();
    let calls: Vec<_> = (0..1_000)
        .map(|index| {
            let message = json!({ "message": index.to_string() });
            (index, client.call_tool("echo", &message).into_future())
        })
        .collect();
    for (index, call) in calls {
        assert_eq!(block_on(call).unwrap().text(), index.to_string());
    }
    drop(client);
    let accepted = server.close().connections.accepted;
    assert!((2..=10).contains(&accepted), "{accepted} connections");
}

#[test]
fn cancelled_calls_make_room_for_waiting_calls() {
    let server = TestServer::with_test_tools(http_options());
    for era in [EraPreference::Modern, EraPreference::Legacy(Revision::V2025_11_25)] {
        let client = client_of(&server).era(era).connect_blocking().unwrap();
        let slow = || client.call_tool("until-cancelled", &json!({})).into_future();
        let slow: Vec<_> = (0..10).map(|_| slow()).collect();
        for _ in &slow {
            assert_eq!(server.next_signal(), "begun");
        }
        let waiting = client.call_tool("echo", &json!({ "message": "hi" })).into_future();
        drop(slow);
        assert_eq!(block_on(waiting).unwrap().text(), "hi");
        for _ in 0..10 {
            assert_eq!(server.next_signal(), "cancelled");
        }
    }
}

#[test]
fn refused_http_connection_fails_every_call() {
    let url = {
        let server = TestServer::start(http_options());
        format!("http://{}/mcp", server.http())
    };
    let client = Client::builder(url.as_str()).connect_lazy().unwrap();
    for _ in 0..2 {
        let error = client.call_tool("echo", &json!({})).wait().unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Connect, "{error}");
    }
}

#[test]
fn invalid_headers_are_refused() {
    let kind = |builder: ClientBuilder| builder.connect_blocking().unwrap_err().kind();
    let builder = || Client::builder("http://127.0.0.1/mcp");
    assert_eq!(kind(builder().header("a b", "c")), ClientErrorKind::InvalidInput);
    assert_eq!(kind(builder().bearer("a\r\nb: c")), ClientErrorKind::InvalidInput);
    let tcp = || Client::builder("tcp://127.0.0.1:1");
    assert_eq!(kind(tcp().header("a", "b")), ClientErrorKind::InvalidInput);
    // Lines have a member for the token.
    assert_eq!(kind(tcp().bearer("a")), ClientErrorKind::Connect);
}

#[test]
fn modern_request_repeats_body_in_headers() {
    let (builder, peer) = HttpPeer::start(|peer| {
        let mut connection = peer.accept();
        let discover = connection.receive();
        assert_eq!(discover.line(), "POST /mcp");
        assert_eq!(discover.header("Authorization"), Some("Bearer secret"));
        assert_eq!(discover.header("X-Own"), Some("value"));
        assert_eq!(discover.header("MCP-Protocol-Version"), Some("2026-07-28"));
        assert_eq!(discover.header("Mcp-Method"), Some("server/discover"));
        connection.send_json(&super::discover_result(&discover.body));
        let call = connection.receive();
        assert_eq!(call.header("Accept"), Some("application/json, text/event-stream"));
        assert_eq!(call.header("Mcp-Method"), Some("tools/call"));
        assert_eq!(call.header("Mcp-Name"), Some("=?base64?5LiW55WM?="));
        assert_eq!(call.header("Mcp-Session-Id"), None);
        connection.send_json(&text_result(&call, "done"));
        connection.expect_end();
    });
    let client = builder.bearer("secret").header("X-Own", "value").connect_blocking().unwrap();
    assert_eq!(client.call_tool("世界", &json!({})).wait().unwrap().text(), "done");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn closed_legacy_session_is_deleted() {
    let (client, peer) = HttpPeer::legacy(|peer, stream| {
        let mut connection = peer.accept();
        let delete = connection.receive();
        assert_eq!(delete.line(), "DELETE /mcp");
        assert_eq!(delete.header("Mcp-Session-Id"), Some("first"));
        connection.send("HTTP/1.1 204 No Content\r\n\r\n");
        connection.expect_end();
        stream.expect_end();
    });
    block_on(client.close());
    peer.join().unwrap();
}

#[test]
fn lost_session_is_begun_again_once() {
    let (client, peer) = HttpPeer::legacy(|peer, stream| {
        let mut connection = peer.accept();
        let call = connection.receive();
        assert_eq!(call.header("Mcp-Session-Id"), Some("first"));
        connection.send_body("404 Not Found", "text/plain", "session not found");
        connection.initialize("second");
        stream.expect_end();
        let again = connection.receive();
        assert_eq!(again.header("Mcp-Session-Id"), Some("second"));
        assert_eq!(again.body, call.body);
        connection.send_body("404 Not Found", "text/plain", "session not found");
        while connection.try_receive().is_some() {
            connection.send_body("404 Not Found", "text/plain", "");
        }
    });
    let error = call(&client).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Http { status: 404 }, "{error}");
    assert!(error.to_string().contains("session not found"), "{error}");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn idle_connection_that_closed_is_replaced() {
    let (client, peer) = HttpPeer::modern(|peer, connection| {
        drop(connection);
        let mut connection = peer.accept();
        let call = connection.receive();
        connection.send("HTTP/1.1 200 OK\r\nConnection: close\r\n");
        let body = text_result(&call, "first").to_string();
        connection.send(&format!("Content-Type: application/json\r\n\r\n{body}"));
        drop(connection);
        let mut connection = peer.accept();
        let call = connection.receive();
        connection.send_json(&text_result(&call, "second"));
        connection.expect_end();
    });
    // The client may send the call before it knows of the close; it has not run then.
    let first = loop {
        match call(&client) {
            Err(error) if error.kind() == ClientErrorKind::Closed => {}
            outcome => break outcome,
        }
    };
    assert_eq!(first.unwrap(), "first");
    assert_eq!(call(&client).unwrap(), "second");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn connection_is_not_used_until_server_closes() {
    let (client, peer) = HttpPeer::modern(|peer, mut connection| {
        let call = connection.receive();
        let fields = "Content-Type: application/json\r\nKeep-Alive: timeout=1\r\n";
        let body = text_result(&call, "first").to_string();
        connection.send(&http_response("200 OK", fields, &body));
        let mut next = peer.accept();
        let call = next.receive();
        next.send_json(&text_result(&call, "second"));
        connection.expect_end();
        next.expect_end();
    });
    assert_eq!(call(&client).unwrap(), "first");
    assert_eq!(call(&client).unwrap(), "second");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn list_is_sent_again_after_reused_connection_closes() {
    let (client, peer) = HttpPeer::modern(|peer, mut connection| {
        assert_eq!(connection.receive().body["method"], "tools/list");
        drop(connection);
        let mut connection = peer.accept();
        let list = connection.receive();
        connection.send_json(&super::response(&list.body, &json!({ "tools": [] })));
        let call = connection.receive();
        assert_eq!(call.body["method"], "tools/call");
        drop(connection);
    });
    assert!(block_on(client.list_tools()).unwrap().is_empty());
    assert_eq!(call(&client).unwrap_err().kind(), ClientErrorKind::Closed);
    peer.join().unwrap();
}

#[test]
fn refused_call_is_sent_again_after_retry_after() {
    let (client, peer) = HttpPeer::modern(|_, mut connection| {
        assert_eq!(connection.receive().body["method"], "tools/call");
        connection.send("HTTP/1.1 429 A\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\nwait");
        let call = connection.receive();
        connection.send_json(&text_result(&call, "done"));
        for _ in 0..4 {
            connection.receive();
            connection.send("HTTP/1.1 429 A\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\nwait");
        }
        connection.receive();
        connection.send("HTTP/1.1 429 A\r\nRetry-After: 3600\r\nContent-Length: 4\r\n\r\nwait");
        connection.expect_end();
    });
    assert_eq!(call(&client).unwrap(), "done");
    for _ in 0..2 {
        let error = call(&client).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Http { status: 429 }, "{error}");
    }
    drop(client);
    peer.join().unwrap();
}

#[test]
fn session_stream_is_resumed_after_its_end() {
    let (builder, peer) = HttpPeer::start(|peer| {
        let mut connection = peer.accept();
        connection.initialize("first");
        let stream = connection.receive();
        assert_eq!(stream.line(), "GET /mcp");
        assert_eq!(stream.header("Last-Event-ID"), None);
        connection.begin_stream();
        let event = |id: u32| {
            let message =
                json!({ "jsonrpc": "2.0", "method": "notifications/a", "params": { "n": id } });
            format!("id: {id}\nretry: 10\ndata: {message}\n\n")
        };
        connection.send(&(event(1) + &event(2) + "id: 3\ndata: {\"cut"));
        drop(connection);
        let mut connection = peer.accept();
        let resumed = connection.receive();
        assert_eq!(resumed.header("Last-Event-ID"), Some("2"));
        assert_eq!(resumed.header("Mcp-Session-Id"), Some("first"));
        connection.begin_stream();
        connection.send(&(event(2) + &event(3)));
        connection.expect_end();
        assert_eq!(peer.accept().receive().line(), "DELETE /mcp");
    });
    let (notified_tx, notified_rx) = mpsc::channel();
    let builder = builder.era(EraPreference::Legacy(Revision::V2025_11_25));
    let builder = builder.on_notification(move |message| {
        let message: serde_json::Value = serde_json::from_slice(message.as_bytes()).unwrap();
        notified_tx.send(message["params"]["n"].as_u64().unwrap()).unwrap();
    });
    let client = builder.connect_blocking().unwrap();
    let timeout = Duration::from_secs(20);
    let received = [(); 3].map(|()| notified_rx.recv_timeout(timeout).unwrap());
    assert_eq!(received, [1, 2, 3]);
    drop(client);
    peer.join().unwrap();
}

#[test]
fn cut_legacy_response_is_resumed() {
    let (client, peer) = HttpPeer::legacy(|peer, _stream| {
        let mut connection = peer.accept();
        let call = connection.receive();
        connection.begin_stream();
        connection.send("id: s-0\nretry: 10\ndata:\n\n");
        drop(connection);
        let mut connection = peer.accept();
        let resumed = connection.receive();
        assert_eq!(resumed.line(), "GET /mcp");
        assert_eq!(resumed.header("Last-Event-ID"), Some("s-0"));
        connection.begin_stream();
        connection.send(&format!("id: s-1\ndata: {}\n\n", text_result(&call, "resumed")));
        connection.expect_end();
    });
    assert_eq!(call(&client).unwrap(), "resumed");
    peer.join().unwrap();
}
