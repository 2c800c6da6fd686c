//! Texts that are no message at all: not JSON, not UTF-8, too deep.

use serde_json::json;

use crate::client::{LEGACY, echo, echoed, expect_error};
use crate::stage::{Stage, options};

#[test]
fn text_that_is_not_json_gets_a_parse_error_and_the_connection_goes_on() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
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
        "\u{feff}{}",
        "\0",
    ];
    for text in texts {
        let answer = client.ask(text);
        expect_error(&answer, -32700, None);
        client.expect_alive();
    }
    drop(client);
    assert_eq!(stage.close().errors.of(-32700), texts.len() as u64);
}

#[test]
fn a_number_beyond_every_double_is_not_json() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let answer = client.ask(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e400}}"#);
    expect_error(&answer, -32700, None);
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn bytes_that_are_not_utf8_get_an_error_and_the_connection_goes_on() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
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
        expect_error(&client.answer(), -32700, None);
        let inside_key = [br#"{"jsonrpc":"2.0","id":1,"method":"ping",""#, bytes, b"\":1}\n"];
        client.send_bytes(&inside_key.concat());
        expect_error(&client.answer(), -32700, None);
        client.send_bytes(&[bytes, b"\n"].concat());
        expect_error(&client.answer(), -32700, None);
        client.expect_alive();
    }
    drop(client);
    let counters = stage.close();
    assert!(counters.faults.utf8 >= 2 * broken.len() as u64, "{counters}");
}

#[test]
fn lone_surrogates_are_refused_and_pairs_are_not() {
    let stage = Stage::open(options());
    let mut client = stage.session(LEGACY);
    for lone in [r"\ud800", r"\udc00", r"\ud83dx", r"\ud83d\ud83d", r"\ude00\ud83d", r"\uDBFF\n"] {
        let as_argument = echo(1, "@").to_string().replace('@', lone);
        expect_error(&client.ask(as_argument), -32700, None);
        let as_id = format!(r#"{{"jsonrpc":"2.0","id":"{lone}","method":"ping"}}"#);
        expect_error(&client.ask(as_id), -32700, None);
        let as_key = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","{lone}":1}}"#);
        expect_error(&client.ask(as_key), -32700, None);
        client.expect_alive();
    }
    let pair = client.ask(echo(1, "@").to_string().replace('@', r"\ud83d\ude00 \uD83D\uDE00"));
    assert_eq!(echoed(&pair), "😀 😀");
    drop(client);
    stage.close();
}

#[test]
fn nesting_is_taken_up_to_its_limit_and_refused_beyond() {
    let mut options = options();
    options.limits.nesting_max = 10;
    let stage = Stage::open(options);
    let mut client = stage.connect();
    // The envelope and the params are two of the ten levels.
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        let params = format!(r#"{{"x":{open}{close}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{params}}}"#)
    };
    assert_eq!(client.ask(nested(8))["result"], json!({}));
    expect_error(&client.ask(nested(9)), -32600, None);
    expect_error(&client.ask(nested(1000)), -32600, None);
    // Long enough to be surveyed before it is parsed.
    expect_error(&client.ask(nested(100_000)), -32600, None);
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn a_million_open_brackets_cost_one_error() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    for text in ["[".repeat(1_000_000), r#"{"a":"#.repeat(200_000)] {
        expect_error(&client.ask(text), -32600, None);
        client.expect_alive();
    }
    drop(client);
    stage.close();
}
