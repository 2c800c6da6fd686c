//! Servers of HTTP that misbehave: a call fails with a known reason, and no other is affected.

use std::time::Duration;

use corelane::Client;
use corelane::client::{ClientErrorKind, EraPreference};
use corelane::model::Revision;
use serde_json::json;

use super::discover_result;
use super::http_peer::{Connection, HttpPeer, initialize_response, text_result};

/// Checks that `respond` fails a call with `kind` and a text, and that the next call succeeds.
fn expect_failure(
    respond: impl FnOnce(&mut Connection) -> bool + Send + 'static,
    kind: &ClientErrorKind,
    text: &str,
) {
    let (client, peer) = HttpPeer::modern(|peer, mut connection| {
        connection.receive();
        // The client may close the connection, or the peer does.
        if !respond(&mut connection) {
            drop(connection);
            connection = peer.accept();
        }
        let next = connection.receive();
        connection.send_json(&text_result(&next, "next"));
        connection.expect_end();
    });
    let call = |client: &Client| client.call_tool("a", &json!({})).wait();
    let error = call(&client).expect_err("the response is bad");
    assert_eq!(error.kind(), *kind, "{error}");
    assert!(error.to_string().contains(text), "{error}");
    assert_eq!(call(&client).expect("a result").text(), "next");
    drop(client);
    peer.join().expect("the peer is served");
}

#[test]
fn event_stream_cut_inside_event_fails_call() {
    let respond = |connection: &mut Connection| {
        connection.begin_stream();
        connection.send("data: {\"jsonrpc\":\"2.0\",\"id\":2,\"res");
        false
    };
    expect_failure(respond, &ClientErrorKind::Closed, "before the response");
}

#[test]
fn error_status_with_html_fails_call() {
    let respond = |connection: &mut Connection| {
        let body = format!("<html>\n  <h1>Oops</h1>{}</html>", "x".repeat(5_000));
        connection.send_body("500 Internal Server Error", "text/html", &body);
        true
    };
    let kind = ClientErrorKind::Http { status: 500 };
    expect_failure(respond, &kind, "HTTP status 500: <html> <h1>Oops</h1>xxx");
}

#[test]
fn wrong_content_type_fails_call() {
    let respond = |connection: &mut Connection| {
        connection.send_body("200 OK", "text/plain", "hello");
        true
    };
    expect_failure(respond, &ClientErrorKind::Protocol, "neither JSON nor an event stream");
    let respond = |connection: &mut Connection| {
        connection.accept_message();
        true
    };
    expect_failure(respond, &ClientErrorKind::Protocol, "status 202");
}

#[test]
fn response_to_another_request_fails_call() {
    let respond = |connection: &mut Connection| {
        connection.send_json(&json!({ "jsonrpc": "2.0", "id": 99, "result": {} }));
        true
    };
    expect_failure(respond, &ClientErrorKind::Protocol, "no response to the request");
}

#[test]
fn connection_closed_inside_body_fails_call() {
    for body in ["Content-Length: 50\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n5\r\n{"] {
        let respond = move |connection: &mut Connection| {
            connection.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n");
            connection.send(body);
            false
        };
        expect_failure(respond, &ClientErrorKind::Closed, "before the end of the response");
    }
}

#[test]
fn invalid_http_fails_call() {
    let respond = |connection: &mut Connection| {
        connection.send("{\"jsonrpc\":\"2.0\"}\r\n\r\n");
        false
    };
    expect_failure(respond, &ClientErrorKind::Protocol, "does not speak HTTP");
}

#[test]
fn response_without_length_ends_with_connection() {
    let (client, peer) = HttpPeer::modern(|_, mut connection| {
        let call = connection.receive();
        connection.send("HTTP/1.1 103 Early Hints\r\n\r\n");
        connection.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n");
        connection.send(&text_result(&call, "whole").to_string());
    });
    assert_eq!(client.call_tool("a", &json!({})).wait().unwrap().text(), "whole");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn server_that_refuses_discover_is_initialized() {
    let (builder, peer) = HttpPeer::start(|peer| {
        let mut connection = peer.accept();
        assert_eq!(connection.receive().body["method"], "server/discover");
        connection.send_body("400 Bad Request", "text/plain", "no session");
        connection.initialize("s");
        // The request for the stream of the session is not answered.
        assert_eq!(connection.receive().line(), "GET /mcp");
        let mut connection = peer.accept();
        let call = connection.receive();
        connection.send_json(&text_result(&call, "served"));
        assert_eq!(connection.receive().line(), "DELETE /mcp");
    });
    let client = builder.connect_blocking().unwrap();
    assert_eq!(client.call_tool("a", &json!({})).wait().unwrap().text(), "served");
    drop(client);
    peer.join().unwrap();
}

/// Refuses the revision that the server supports.
fn refuse_discover(connection: &mut Connection) {
    let discover = connection.receive();
    assert_eq!(discover.body["method"], "server/discover");
    let data = json!({ "supported": ["2026-07-28"], "requested": "2026-07-28" });
    let error = json!({ "code": -32022, "message": "unsupported", "data": data });
    let body = json!({ "jsonrpc": "2.0", "id": discover.body["id"], "error": error });
    connection.send_body("400 Bad Request", "application/json", &body.to_string());
}

#[test]
fn refused_but_supported_revision_is_repeated_once() {
    let (builder, peer) = HttpPeer::start(|peer| {
        let mut connection = peer.accept();
        refuse_discover(&mut connection);
        let discover = connection.receive();
        connection.send_json(&discover_result(&discover.body));
        connection.expect_end();
    });
    drop(builder.connect_blocking().unwrap());
    peer.join().unwrap();

    let (builder, peer) = HttpPeer::start(|peer| {
        let mut connection = peer.accept();
        refuse_discover(&mut connection);
        refuse_discover(&mut connection);
        connection.expect_end();
    });
    let error = builder.connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Handshake, "{error}");
    peer.join().unwrap();
}

#[test]
fn refused_handshake_names_its_status() {
    let (builder, peer) = HttpPeer::start(|peer| {
        let mut connection = peer.accept();
        while connection.try_receive().is_some() {
            connection.send_body("401 Unauthorized", "text/plain", "who are you?");
        }
    });
    let error = builder.connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Unauthorized { challenge: None });
    assert!(error.to_string().contains("HTTP status 401: who are you?"), "{error}");
    peer.join().unwrap();
}

#[test]
fn refused_notification_fails_no_call() {
    let (builder, peer) = HttpPeer::start(|peer| {
        let mut connection = peer.accept();
        let initialize = connection.receive();
        connection.send_json(&super::response(
            &initialize.body,
            &json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "peer", "version": "1" },
            }),
        ));
        assert_eq!(connection.receive().body["method"], "notifications/initialized");
        connection.send_body("500 Internal Server Error", "text/html", "<p>");
        assert_eq!(connection.receive().line(), "GET /mcp");
        let mut connection = peer.accept();
        let call = connection.receive();
        connection.send_json(&text_result(&call, "served"));
        connection.expect_end();
    });
    let era = EraPreference::Legacy(Revision::V2025_06_18);
    let client = builder.era(era).connect_blocking().unwrap();
    assert_eq!(client.call_tool("a", &json!({})).wait().unwrap().text(), "served");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn early_error_response_to_large_request_is_read() {
    let (client, peer) = HttpPeer::modern(|_, mut connection| {
        connection.receive_head();
        connection.send_body("413 Content Too Large", "text/plain", "too large");
    });
    let large = json!({ "text": "x".repeat(16 << 20) });
    let error = client.call_tool("a", &large).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Http { status: 413 }, "{error}");
    drop(client);
    peer.join().unwrap();
}

#[test]
fn unanswered_notification_delays_calls_only() {
    let (builder, peer) = HttpPeer::start(|peer| {
        let mut connection = peer.accept();
        let initialize = connection.receive();
        connection.send(&initialize_response(&initialize, "s"));
        assert_eq!(connection.receive().body["method"], "notifications/initialized");
        // It is sent once more, on another connection.
        let mut repeated = peer.accept();
        assert_eq!(repeated.receive().body["method"], "notifications/initialized");
        let mut requests = [peer.accept(), peer.accept()];
        for connection in &mut requests {
            let request = connection.receive();
            if request.body["method"] == "tools/call" {
                connection.send_json(&text_result(&request, "served"));
            }
        }
    });
    let era = EraPreference::Legacy(Revision::V2025_11_25);
    let builder = builder.era(era).request_timeout(Duration::from_millis(100));
    let client = builder.connect_blocking().unwrap();
    let call = client.call_tool("a", &json!({})).timeout(Duration::from_secs(20));
    assert_eq!(call.wait().unwrap().text(), "served");
    drop(client);
    peer.join().unwrap();
}
