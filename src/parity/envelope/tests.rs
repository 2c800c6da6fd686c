//! Tests of reading messages.

use super::*;
use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};

fn with_value<T>(text: &str, read: impl FnOnce(Value<'_>) -> T) -> T {
    let mut parser = Parser::new(ParseLimits::default());
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len() + PADDING_BYTES, 0);
    let document = parser.parse(PaddedText::new(&mut bytes, text.len())).unwrap();
    read(document.root())
}

/// Reads one message and describes it in one line.
fn describe(text: &str) -> String {
    with_value(text, |value| match Envelope::read(value) {
        Ok(Envelope::Request(it)) => {
            format!("request {:?} {} {} {:?}", it.id, it.method, it.streams, it.idempotency_key)
        }
        Ok(Envelope::Handshake(it)) => {
            let token =
                it.resume.map(|resume| (resume.token, resume.acknowledged().collect::<Vec<_>>()));
            format!("handshake {} {} {token:?}", it.protocol_version, it.exchanges_capabilities)
        }
        Ok(other) => format!("{other:?}"),
        Err(InvalidEnvelope { id, is_request, error }) => {
            format!("{} {id:?} {is_request}", error.message)
        }
    })
}

#[test]
fn envelopes_are_read() {
    for (text, expected) in [
        (r#"{"type":"request","id":7,"method":"ping"}"#, "request Signed(7) ping false None"),
        (
            r#"{"stream":true,"no":0,"id":"q","type":"request","method":"x","idempotencyKey":"k"}"#,
            r#"request Text("q") x true Some("k")"#,
        ),
        (
            r#"{"type":"handshake","protocolVersion":"1.0","capabilities":{}}"#,
            "handshake 1.0 false None",
        ),
        (
            r#"{"protocolVersion":"1","resumeToken":"t","lastAckSeq":{"s1":4},"type":"handshake"}"#,
            r#"handshake 1 false Some(("t", [("s1", 4)]))"#,
        ),
        (r#"{"type":"cancel","streamId":"s1"}"#, r#"Cancel(Stream("s1"))"#),
        (r#"{"type":"keepalive","timeoutHintSec":9}"#, "Keepalive { timeout_hint: Some(9) }"),
    ] {
        assert_eq!(describe(text), expected, "{text}");
    }
}

#[test]
fn malformed_envelopes_are_rejected() {
    for (text, expected) in [
        ("[1]", "a message must be a JSON object None false"),
        (r#"{"id":3}"#, "missing \"type\" (a string) Some(Signed(3)) false"),
        (r#"{"type":"other"}"#, "unknown \"type\": other None false"),
        (r#"{"type":"request","method":"ping"}"#, &format!("{ID_ERROR} None true")),
        (r#"{"type":"request","id":1.5,"method":"ping"}"#, &format!("{ID_ERROR} None true")),
        (
            r#"{"type":"request","id":1,"method":"x","params":[]}"#,
            "\"params\" must be an object Some(Signed(1)) true",
        ),
        (
            r#"{"type":"request","id":1,"method":"x","method":"y"}"#,
            "duplicate key \"method\" Some(Signed(1)) true",
        ),
        (
            r#"{"type":"request","id":1,"method":"x","idempotencyKey":""}"#,
            "\"idempotencyKey\" must have 1 to 128 characters Some(Signed(1)) true",
        ),
        (
            r#"{"type":"cancel","id":1,"streamId":"s"}"#,
            "a cancel has exactly one of \"id\" and \"streamId\" Some(Signed(1)) false",
        ),
        (r#"{"type":"handshake"}"#, "missing \"protocolVersion\" (a string) None false"),
    ] {
        assert_eq!(describe(text), expected, "{text}");
    }
    let long = "i".repeat(ID_CHARS_MAX + 1);
    let text = format!(r#"{{"type":"request","id":"{long}","method":"ping"}}"#);
    assert_eq!(describe(&text), format!("{ID_ERROR} None true"));
}

#[test]
fn json_rpc_is_no_envelope() {
    for (text, expected) in [
        (r#"{"type":"handshake"}"#, Some("handshake")),
        (r#"{"type":"handshake","jsonrpc":"2.0"}"#, None),
        (r#"{"type":"other"}"#, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, None),
        ("3", None),
    ] {
        assert_eq!(with_value(text, type_of), expected, "{text}");
    }
}

#[test]
fn response_has_exactly_one_outcome() {
    for (text, is_valid) in [
        (r#"{"type":"response","id":1,"result":{}}"#, true),
        (r#"{"type":"response","id":1,"error":{}}"#, true),
        (r#"{"type":"response","id":1,"result":{},"error":{}}"#, false),
        (r#"{"type":"response","id":1}"#, false),
        (r#"{"type":"stream.chunk","streamId":"s","seq":1,"chunkType":"eos"}"#, true),
        (r#"{"type":"stream.chunk","streamId":"s","seq":0,"chunkType":"eos"}"#, false),
        (r#"{"type":"stream.chunk","streamId":"s","seq":1,"chunkType":"x"}"#, false),
    ] {
        let read = with_value(text, |value| Envelope::read(value).is_ok());
        assert_eq!(read, is_valid, "{text}");
    }
}
