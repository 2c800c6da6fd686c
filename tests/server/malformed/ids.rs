//! Request ids in responses: same type and value as sent.

use corelane_test_support::messages::{LEGACY, expect_error};
use corelane_test_support::{LineClient, TestServer, tcp_options};
use serde_json::Value;

/// Ids in their shortest encoding, returned byte for byte.
const PLAIN: [&str; 23] = [
    "0",
    "0.0",
    "-1.0",
    "9007199254740991.0",
    "1",
    "-1",
    "9007199254740993",
    "-9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    r#""""#,
    r#"" ""#,
    r#""0""#,
    r#""1e5""#,
    r#""null""#,
    r#""a\"b\\c""#,
    r#""line\nbreak\r\ttab""#,
    r#""ünïcödé""#,
    r#""日本語 😀""#,
    r#""</script>/""#,
    r#""9223372036854775807""#,
];

/// Ids that may be returned in a shorter encoding.
const ESCAPED: [&str; 8] = [
    r#""\u0041""#,
    r#""\u00e9\u65e5""#,
    r#""\ud83d\ude00""#,
    r#""\/""#,
    r#""\u0000\u0001\u001f\u007f""#,
    r#""\u2028\u2029""#,
    r#""\b\f""#,
    "-0",
];

fn id_of(line: &str) -> Value {
    let response: Value = serde_json::from_str(line).expect("JSON");
    response["id"].clone()
}

fn send_raw(client: &mut LineClient, id: &str, method: &str, params: &str) -> String {
    client.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
    client.receive_line().expect("response")
}

#[test]
fn request_ids_are_echoed_byte_for_byte() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    for id in PLAIN {
        let line = send_raw(&mut client, id, "ping", "{}");
        assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
    drop(client);
    server.close();
}

#[test]
fn request_id_is_equal_in_all_responses() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    // The longest id that is accepted.
    let long = format!("\"{}\"", "long".repeat(1024));
    for id in PLAIN.into_iter().chain(ESCAPED).chain([long.as_str()]) {
        let sent: Value = serde_json::from_str(id).expect("JSON");
        // -0 is parsed as 0.
        let sent = if id == "-0" { Value::from(0) } else { sent };
        for (method, params) in [
            ("ping", "{}"),
            ("tools/call", r#"{"name":"echo","arguments":{"message":"x"}}"#),
            ("tools/call", r#"{"name":"slow","arguments":{"steps":1,"step_ms":0}}"#),
            ("tools/call", r#"{"name":"hash","arguments":{"bytes":10}}"#),
            ("tools/call", r#"{"name":"nope"}"#),
            ("nope", "{}"),
            ("ping", "7"),
        ] {
            let line = send_raw(&mut client, id, method, params);
            assert_eq!(id_of(&line), sent, "{method} {params}: {line}");
        }
    }
    drop(client);
    server.close();
}

#[test]
fn whole_number_is_same_id_however_written() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    let slow = r#"{"name":"slow","arguments":{"steps":10.0,"step_ms":6e4}}"#;
    let call = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{slow}}}"#)
    };
    client.send(call("5.0"));
    let duplicate = client.exchange(call("5"));
    expect_error(&duplicate, -32600, Some(5.into()));
    let cancelled =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5e0}}"#;
    client.send(cancelled);
    let line = send_raw(&mut client, "5", "ping", "{}");
    assert_eq!(line, r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    for (written, echoed) in [("2e0", "2.0"), ("1e3", "1000.0"), ("-0.0", "0.0")] {
        let line = send_raw(&mut client, written, "ping", "{}");
        assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":{echoed},"result":{{}}}}"#));
    }
    // Beyond 2^53 a double stands for several integers.
    for written in ["9007199254740993.0", "1e16", "1.5"] {
        let line = send_raw(&mut client, written, "ping", "{}");
        expect_error(&serde_json::from_str(&line).unwrap(), -32600, None);
    }
    drop(client);
    server.close();
}

#[test]
fn whole_number_is_progress_token_as_written() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    let params =
        r#"{"name":"slow","arguments":{"steps":1,"step_ms":0},"_meta":{"progressToken":7.0}}"#;
    let line = send_raw(&mut client, "1", "tools/call", params);
    assert!(line.contains(r#""progressToken":7.0,"#), "{line}");
    assert!(client.receive()["result"].is_object());
    drop(client);
    server.close();
}

#[test]
fn overlong_id_or_progress_token_is_rejected() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    let long = "x".repeat(4097);
    let call = r#"{"name":"slow","arguments":{"steps":1,"step_ms":0}}"#;
    for id in [format!("\"{long}\""), format!("\"{}\"", long.repeat(10))] {
        let response: Value =
            serde_json::from_str(&send_raw(&mut client, &id, "tools/call", call)).unwrap();
        assert_eq!(response["error"]["code"], -32600, "{response}");
        assert!(response["id"].is_null());
    }
    let params = format!(
        r#"{{"name":"slow","arguments":{{"steps":1}},"_meta":{{"progressToken":"{long}"}}}}"#
    );
    let response: Value =
        serde_json::from_str(&send_raw(&mut client, "1", "tools/call", &params)).unwrap();
    assert_eq!((&response["error"]["code"], &response["id"]), (&(-32602).into(), &1.into()));
    let response: Value =
        serde_json::from_str(&send_raw(&mut client, "1", "tools/call", call)).unwrap();
    assert!(response["result"].is_object(), "{response}");
    drop(client);
    server.close();
}
