//! The spans of the dialect at a collector.

use corelane::Options;
use corelane_test_support::TestServer;
use corelane_test_support::collector::{Collector, Span, attribute};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::client::{ParityClient, call, handshake, request, streamed};
use crate::http::{Exchange, Session};
use crate::options;

const TRACE_ID: [u8; 16] = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes();
const PARENT_ID: [u8; 8] = 0xb7ad_6b71_6920_3331_u64.to_be_bytes();
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn traced(mut message: Value) -> Value {
    message["traceparent"] = json!(TRACE);
    message
}

fn traced_options(collector: &Collector) -> Options {
    let mut options = options();
    options.traces.endpoint = Some(collector.url());
    options
}

/// Returns the span with this name and request.
#[track_caller]
fn find<'a>(spans: &'a [Span], name: &str, id: Option<&str>) -> &'a Span {
    let is_it = |span: &&Span| {
        span.name == name && (id.is_none() || attribute(span, "requestId").as_deref() == id)
    };
    spans.iter().find(is_it).unwrap_or_else(|| panic!("{name}: {spans:#?}"))
}

#[track_caller]
fn expect_attributes(span: &Span, expected: &[(&str, &str)]) {
    for (key, value) in expected {
        assert_eq!(attribute(span, key).as_deref(), Some(*value), "{key}: {span:#?}");
    }
}

#[track_caller]
fn expect_parent(span: &Span, parent: [u8; 8]) {
    assert_eq!((&*span.trace_id, &*span.parent_span_id), (&TRACE_ID[..], &parent[..]));
    assert!(span.start_time_unix_nano > 1_700_000_000_000_000_000, "{span:#?}");
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano, "{span:#?}");
    assert_eq!((span.span_id.len(), span.span_id.iter().any(|byte| *byte > 0)), (8, true));
}

#[test]
fn three_spans_have_trace_over_tcp() {
    let collector = Collector::start();
    let server = TestServer::with_test_tools(traced_options(&collector));
    let mut client = ParityClient::connect(&server);
    let ack = client.exchange(&traced(handshake()));
    let stream = client.open_stream(traced(call("s", "slow", json!({"steps": 1, "step_ms": 0}))));
    client.receive_stream(&stream, 1);
    client.result(&traced(call(2, "echo", json!({"message": "secret"}))));
    client.expect_error(&traced(request(3, "no/such")), "response", "error.feature_not_available");
    // Without a trace, and without a span.
    client.result(&request(4, "tools/list"));
    client.expect_error(&json!({"type": "cancel"}), "error", "error.internal");
    drop(client);
    server.close();
    let spans = collector.receive(6);
    let session = &*log_id(ack["sessionId"].as_str().unwrap());
    let of_session = [("sessionId", session), ("transport", "tcp"), ("auth.tier", "anonymous")];
    let of_handshake = find(&spans, "MCP Handshake", None);
    let of_call = find(&spans, "MCP Request", Some("2"));
    let of_stream = find(&spans, "MCP Request", Some("\"s\""));
    let rejected = find(&spans, "MCP Request", Some("3"));
    for span in [of_handshake, of_call, of_stream, rejected] {
        expect_parent(span, PARENT_ID);
        expect_attributes(span, &of_session);
        assert_eq!(span.kind, 2, "{span:#?}");
    }
    expect_attributes(of_call, &[("method", "tools/call"), ("tool", "echo")]);
    let refused = [("error.code", "error.feature_not_available"), ("retryable", "false")];
    expect_attributes(rejected, &refused);
    assert_eq!(rejected.status.as_ref().map(|status| status.code), Some(2));
    assert_eq!(of_call.status, None);
    let within = find(&spans, "MCP Stream", None);
    expect_parent(within, of_stream.span_id.clone().try_into().unwrap());
    expect_attributes(within, &[("streamId", &stream), ("seq", "2")]);
    let own = find(&spans, "MCP Request", Some("4"));
    assert!(own.trace_id != TRACE_ID && own.parent_span_id.is_empty(), "{own:#?}");
    assert!(!format!("{spans:?}").contains("secret"));
}

#[test]
fn three_spans_have_trace_over_http() {
    let collector = Collector::start();
    let server = TestServer::with_test_tools(traced_options(&collector));
    let text = traced(handshake()).to_string();
    let exchange = Exchange::start(&server, "POST", "/parity", "", text);
    let session = exchange.head.field("Mcp-Session-Id").expect("a session").to_owned();
    drop(exchange.text());
    let fields = format!("Mcp-Session-Id: {session}\r\n");
    let post = |message: Value, accept: &str| {
        let fields = format!("{fields}{accept}");
        Exchange::start(&server, "POST", "/parity", &fields, message.to_string())
    };
    let message = traced(streamed(call(1, "echo", json!({"message": "m"}))));
    let mut stream = post(message, "Accept: text/event-stream\r\n");
    while stream.next_event().is_some() {}
    let refused = post(traced(request(2, "no/such")), "").json();
    assert_eq!(refused["error"]["code"], "error.feature_not_available", "{refused}");
    server.close();
    let spans = collector.receive(4);
    let of_stream = find(&spans, "MCP Request", Some("1"));
    let all = [find(&spans, "MCP Handshake", None), of_stream];
    for span in all.into_iter().chain([find(&spans, "MCP Request", Some("2"))]) {
        expect_parent(span, PARENT_ID);
        expect_attributes(span, &[("sessionId", &log_id(&session)), ("transport", "http")]);
    }
    expect_parent(find(&spans, "MCP Stream", None), of_stream.span_id.clone().try_into().unwrap());
}

#[test]
fn request_of_unknown_session_has_span() {
    let collector = Collector::start();
    let server = TestServer::with_test_tools(traced_options(&collector));
    let fields = "Mcp-Session-Id: 01234567-89ab-4def-8123-456789abcdef\r\n";
    let message = traced(call("q", "echo", json!({}))).to_string();
    Exchange::start(&server, "POST", "/parity", fields, message).json();
    server.close();
    let spans = collector.receive(1);
    expect_parent(&spans[0], PARENT_ID);
    let expected =
        [("transport", "http"), ("requestId", "\"q\""), ("error.code", "error.internal")];
    expect_attributes(&spans[0], &expected);
}

#[test]
fn request_ends_with_its_session() {
    let collector = Collector::start();
    let server = TestServer::with_test_tools(traced_options(&collector));
    let session = Session::begin(&server);
    let fields = format!("Mcp-Session-Id: {}\r\n", session.id);
    let message = traced(call(1, "until-cancelled", json!({}))).to_string();
    let waiting = Exchange::send(&server, "POST", "/parity", &fields, message);
    assert_eq!(server.next_signal(), "begun");
    drop(Exchange::start(&server, "DELETE", "/parity", &fields, ""));
    assert_eq!(server.next_signal(), "cancelled");
    drop(waiting);
    server.close();
    let spans = collector.receive(2);
    let span = find(&spans, "MCP Request", Some("1"));
    expect_parent(span, PARENT_ID);
    expect_attributes(span, &[("error.code", "error.internal"), ("retryable", "false")]);
}

#[test]
fn unsampled_trace_has_no_span() {
    let collector = Collector::start();
    let server = TestServer::with_test_tools(traced_options(&collector));
    let mut client = ParityClient::connect(&server);
    for message in [handshake(), call(1, "echo", json!({"message": "m"}))] {
        let mut message = message;
        message["traceparent"] = json!(TRACE.replace("-01", "-00"));
        client.exchange(&message);
    }
    client.result(&traced(request(2, "tools/list")));
    drop(client);
    server.close();
    assert_eq!(attribute(&collector.receive(1)[0], "requestId").as_deref(), Some("2"));
    let server = TestServer::with_test_tools(traced_options(&collector));
    let session = Session::begin(&server);
    assert!(!session.id.is_empty());
    server.close();
    assert_eq!(collector.receive(1)[0].name, "MCP Handshake");
}

/// What stands for the id of a session in spans.
fn log_id(session: &str) -> String {
    let digest = Sha256::digest(session);
    let first = digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
    format!("{first:016x}")
}
