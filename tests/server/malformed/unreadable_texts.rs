//! Texts that do not parse: what is repaired, and the id that their errors have, on each transport.

use corelane_test_support::http::Request;
use corelane_test_support::messages::{LEGACY, echo, expect_error, modern, result_text};
use corelane_test_support::websocket::text_frame;
use corelane_test_support::{TestServer, WebSocketClient, http_options, tcp_options};
use serde_json::{Value, json};

/// An `echo` of `message`, which is written as it is, with further arguments.
fn echo_text(id: &str, message: &str, more: &str) -> String {
    let arguments = format!(r#"{{"message":"{message}"{more}}}"#);
    let params = format!(r#"{{"name":"echo","arguments":{arguments}}}"#);
    format!(r#"{{"method":"tools/call","params":{params},"jsonrpc":"2.0","id":{id}}}"#)
}

/// Requests that do not parse, with the code of the error.
fn unreadable_requests(id: &str) -> Vec<(String, i64)> {
    let nested = format!(r#","n":{}{}"#, "[".repeat(80), "]".repeat(80));
    vec![
        (echo_text(id, "x", r#","n":1e400"#), -32700),
        (echo_text(id, "x", r#","n":tru"#), -32700),
        (echo_text(id, r"\ud83d\x", ""), -32700),
        (echo_text(id, r#"\"id\":7\n"#, r#","id":9,"n":-1e999"#), -32700),
        (echo_text(id, "x", &nested), -32600),
        (format!(r#"{{"id":{id},"jsonrpc":"2.0","method":"ping","params":{{"#), -32700),
    ]
}

/// Ids as they are written, and as they come back.
fn ids() -> [(&'static str, Value); 3] {
    [
        ("42", json!(42)),
        (r#""a\"b\u0041""#, json!("a\"bA")),
        ("9007199254740993", json!(9_007_199_254_740_993_u64)),
    ]
}

#[test]
fn error_over_tcp_has_id_of_unreadable_request() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    let unusual = [("18446744073709551615", json!(u64::MAX)), ("7.0", json!(7.0))];
    for (written, id) in ids().into_iter().chain(unusual) {
        for (text, code) in unreadable_requests(written) {
            expect_error(&client.exchange(text), code, Some(id.clone()));
        }
        client.ping();
    }
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping","params":{"n":1e400}}"#,
        r#"{"jsonrpc":"2.0","method":"ping","params":{"id":1,"n":1e400}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":1e400}}]"#,
    ] {
        expect_error(&client.exchange(text), -32700, None);
    }
    drop(client);
    server.close();
}

#[test]
fn error_over_websocket_has_id_of_unreadable_request() {
    let server = TestServer::with_test_tools(http_options());
    let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
    for (written, id) in ids() {
        for (text, code) in unreadable_requests(written) {
            peer.send_bytes(&text_frame(text));
            expect_error(&peer.read_message(), code, Some(id.clone()));
        }
    }
    peer.close(1000);
    server.close();
}

#[test]
fn error_over_http_has_id_of_unreadable_request() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    for (written, id) in ids() {
        for (text, code) in unreadable_requests(written) {
            let response = client.exchange(&Request::post(text));
            assert_eq!(response.status(), 400);
            expect_error(&response.message(), code, Some(id.clone()));
        }
    }
    drop(client);
    server.close();
}

#[test]
fn byte_order_mark_is_ignored_over_each_transport() {
    let server = TestServer::with_test_tools(http_options());
    let request = modern(echo(1, "marked"));
    let text = format!("\u{feff}{request}");
    let mut client = server.connect_http();
    let response = client.exchange(&Request::modern(&request).body(text));
    assert_eq!(result_text(&response.message()), "marked");
    let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
    peer.register_request(&echo(2, "framed"));
    peer.send_bytes(&text_frame(format!("\u{feff}{}", echo(2, "framed"))));
    assert_eq!(result_text(&peer.read_message()), "framed");
    peer.close(1000);
    drop(client);
    server.close();
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    let response = client.exchange(format!("\u{feff}{}", echo(3, "in a line")));
    assert_eq!(result_text(&response), "in a line");
    // Nowhere else.
    expect_error(&client.exchange(format!(" \u{feff}{}", echo(4, "x"))), -32700, None);
    drop(client);
    server.close();
}

#[test]
fn lone_surrogates_are_read_as_replacement_characters() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    for (lone, read) in [
        (r"\ud800", "\u{fffd}"),
        (r"\udc00", "\u{fffd}"),
        (r"\ud83dx", "\u{fffd}x"),
        (r"\ud83d\ud83d", "\u{fffd}\u{fffd}"),
        (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
        (r"\uDBFF\n", "\u{fffd}\n"),
        (r#"\"\u0041\t\ud83d\ude00\ud83d"#, "\"A\t\u{1f600}\u{fffd}"),
    ] {
        for padding in ["", &"x".repeat(2_000)] {
            let more = format!(r#","padding":"{padding}""#);
            let response = client.exchange(echo_text(r#""a\n""#, lone, &more));
            assert_eq!((result_text(&response), &response["id"]), (read, &json!("a\n")));
        }
        let as_key = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","{lone}":1}}"#);
        assert_eq!(client.exchange(as_key)["result"], json!({}));
    }
    drop(client);
    server.close();
}

#[test]
fn blank_line_is_ignored() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    client.send_bytes(b"\n   \n\t\r\n\r\r\n \xef\xbb\xbf\n\xef\xbb\xbf  \n");
    expect_error(&client.receive(), -32700, None);
    client.ping();
    drop(client);
    assert_eq!(server.close().errors.count_of(-32700), 1);
}

#[test]
fn carriage_return_over_tcp_is_white_space() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    client.send_bytes(b"{\"jsonrpc\":\"2.0\",\r\"id\":1,\r\r\"method\":\"ping\"}\r\r\n");
    assert_eq!(client.receive()["result"], json!({}));
    // Two texts in one line.
    let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    expect_error(&client.exchange(format!("{ping}\r{ping}")), -32700, Some(json!(2)));
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn error_of_oversized_line_has_its_id() {
    let mut options = tcp_options();
    options.limits.message_bytes_max = 1_000;
    let server = TestServer::start(options);
    let mut client = server.connect_initialized(LEGACY);
    let padding = "x".repeat(2_000);
    let text = format!(r#"{{"jsonrpc":"2.0","id":"big","method":"ping","x":"{padding}"}}"#);
    expect_error(&client.exchange(text), -32012, Some(json!("big")));
    drop(client);
    server.close();
}
