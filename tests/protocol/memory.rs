//! Memory: the road through this room asks for none.

use crate::counting::allocations;
use crate::stage::padded;
use corelane::protocol::era::{Lifecycle, Meta, Method};
use corelane::protocol::json::{Limits, Parser, Value};
use corelane::protocol::message::{self, Answer};
use corelane::protocol::revision::Revision;
use corelane::protocol::rpc::{Envelope, Refused};

/// Reads and answers one call of a tool that repeats its argument, as the road does.
fn serve(parser: &mut Parser, text: &mut [u8], length: usize, out: &mut Vec<u8>) {
    let document = parser.parse(text, length).expect("the message is JSON");
    let Ok(Envelope::Request { id, method, params }) = Envelope::read(document.root()) else {
        panic!("the message is a request");
    };
    let meta = Meta::read(params).expect("its _meta is in order");
    let revision = if meta.is_modern() {
        meta.modern().expect("its _meta is complete").revision
    } else {
        Revision::LATEST_LEGACY
    };
    assert_eq!(Method::parse(method), Some(Method::ToolsCall));
    let params = params.and_then(Value::as_object).expect("it has params");
    let [arguments] = params.once(["arguments"]).expect("no key is twice");
    let arguments = arguments.and_then(Value::as_object).expect("it has arguments");
    let text = arguments.find("message").and_then(Value::as_str).expect("a message");
    message::result_open(out, id);
    let mut answer = Answer::open(out, revision, b"");
    answer.text(text).format(format_args!("{} bytes", text.len()));
    answer.finish();
    message::result_close(out);
}

#[test]
fn a_call_is_read_and_answered_without_an_allocation() {
    let call = r#""name":"echo","arguments":{"message":"a line\nand \"more\""}"#;
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":1,
        "io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}"#;
    let head = r#"{"jsonrpc":"2.0","id":"text \u00e9","method":"tools/call","params":{"#;
    let mut parser = Parser::new(Limits::default());
    let mut out = Vec::with_capacity(1024);
    for text in [format!("{head}{call}}}}}"), format!("{head}{meta},{call}}}}}")] {
        let mut rounds: Vec<Vec<u8>> = (0..100).map(|_| padded(text.as_bytes())).collect();
        serve(&mut parser, &mut rounds[0], text.len(), &mut out);
        let made = allocations(|| {
            for bytes in &mut rounds[1..] {
                out.clear();
                serve(&mut parser, bytes, text.len(), &mut out);
            }
        });
        assert_eq!(made, 0);
    }
}

#[test]
fn a_ping_is_read_and_answered_without_an_allocation() {
    let text = br#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}"#;
    let mut parser = Parser::new(Limits::default());
    let mut out = Vec::with_capacity(256);
    let lifecycle = Lifecycle::new();
    let mut rounds: Vec<Vec<u8>> = (0..100).map(|_| padded(text)).collect();
    let mut serve = |bytes: &mut Vec<u8>| {
        out.clear();
        let document = parser.parse(bytes, text.len()).expect("the message is JSON");
        match Envelope::read(document.root()) {
            Ok(Envelope::Request { id, .. }) => {
                lifecycle.admit(Method::Ping).expect("ping is always answered");
                message::result(&mut out, id, b"{}");
            }
            Ok(_) | Err(Refused { .. }) => panic!("the message is a request"),
        }
    };
    serve(&mut rounds[0]);
    assert_eq!(allocations(|| rounds[1..].iter_mut().for_each(&mut serve)), 0);
}
