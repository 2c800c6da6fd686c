//! Input that is no JSON text: syntax errors, invalid UTF-8, excessive nesting.

use corelane_test_support::messages::expect_error;
use corelane_test_support::{TestServer, tcp_options};
use serde_json::json;

#[test]
fn invalid_json_gets_parse_error() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_tcp();
    let texts = [
        "{",
        "}",
        "nul",
        "truefalse",
        "'x'",
        "NaN",
        "-",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "\"open",
        "\"\\x\"",
        "\"tab\tinside\"",
        "\"bell\u{7}inside\"",
        "[1,2",
        "[1,,2]",
        "[1,]",
        "{\"a\"}",
        "{\"a\" 1}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":1}}",
        "{}{}",
        "{} x",
        "[1]]",
        "[}",
        "{]",
        "// comment",
        "GET / HTTP/1.1",
        "\u{feff}\u{feff}{}",
        "\0",
    ];
    for text in texts {
        let response = client.exchange(text);
        expect_error(&response, -32700, None);
        client.ping();
    }
    drop(client);
    assert_eq!(server.close().errors.count_of(-32700), texts.len() as u64);
}

#[test]
fn number_beyond_double_range_gets_parse_error() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_tcp();
    let response =
        client.exchange(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e400}}"#);
    expect_error(&response, -32700, Some(json!(1)));
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn invalid_utf8_gets_parse_error() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_tcp();
    let broken: [&[u8]; 9] = [
        b"\x80",
        b"\xff\xfe",
        b"\xc0\xaf",
        b"\xe2\x82",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"abc\xc3",
    ];
    for bytes in broken {
        let inside_string = [br#"{"jsonrpc":"2.0","id":1,"method":""#, bytes, b"\"}\n"].concat();
        client.send_bytes(&inside_string);
        expect_error(&client.receive(), -32700, Some(json!(1)));
        let inside_key = [br#"{"jsonrpc":"2.0","id":1,"method":"ping",""#, bytes, b"\":1}\n"];
        client.send_bytes(&inside_key.concat());
        expect_error(&client.receive(), -32700, Some(json!(1)));
        client.send_bytes(&[bytes, b"\n"].concat());
        expect_error(&client.receive(), -32700, None);
        client.ping();
    }
    drop(client);
    let counters = server.close();
    assert!(counters.input_errors.utf8 >= 2 * broken.len() as u64, "{counters}");
}

#[test]
fn nesting_over_limit_is_rejected() {
    let mut options = tcp_options();
    options.limits.nesting_max = 10;
    let server = TestServer::start(options);
    let mut client = server.connect_tcp();
    // The envelope and the params take two of the ten levels.
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        let params = format!(r#"{{"x":{open}{close}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{params}}}"#)
    };
    assert_eq!(client.exchange(nested(8))["result"], json!({}));
    expect_error(&client.exchange(nested(9)), -32600, Some(json!(1)));
    expect_error(&client.exchange(nested(1000)), -32600, Some(json!(1)));
    // Long enough for the prescan before parsing.
    expect_error(&client.exchange(nested(100_000)), -32600, Some(json!(1)));
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn million_open_brackets_get_one_error() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_tcp();
    for text in ["[".repeat(1_000_000), r#"{"a":"#.repeat(200_000)] {
        expect_error(&client.exchange(text), -32600, None);
        client.ping();
    }
    drop(client);
    server.close();
}
