//! Spans of requests at a collector: what they have, and a collector that is away or refuses.

use std::fs;

use corelane::options::{Ratio, TraceSampler};
use corelane::{Options, StartError};
use corelane_test_support::collector::{Collector, Span, attribute};
use corelane_test_support::messages::{LEGACY, call, cancelled, initialize, modern, request};
use corelane_test_support::tls::{Issuer, Terminator, TlsFault};
use corelane_test_support::{
    HttpClient, Request, TestServer, http_and_tcp_options, over_each_ring,
};
use serde_json::{Value, json};
use tempfile::tempdir;

const TRACE_ID: [u8; 16] = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes();
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const PARENT_ID: [u8; 8] = 0xb7ad_6b71_6920_3331_u64.to_be_bytes();
const OTHER_TRACE: &str = "00-11111111111111111111111111111111-2222222222222222-00";
const OTHER_PARENT_ID: [u8; 8] = [0x22; 8];

fn options_with(endpoint: String) -> Options {
    let mut options = http_and_tcp_options();
    options.traces.endpoint = Some(endpoint);
    options
}

fn echo(id: u64) -> Value {
    modern(call(id, "echo", json!({"message": "m"})))
}

fn traced(mut message: Value) -> Value {
    message["params"]["_meta"]["traceparent"] = json!(TRACE);
    message["params"]["_meta"]["tracestate"] = json!("vendor=1");
    message
}

/// Returns the span of the request with this id.
#[track_caller]
fn of_request<'a>(spans: &'a [Span], id: &str) -> &'a Span {
    let is_it = |span: &&Span| attribute(span, "jsonrpc.request.id").as_deref() == Some(id);
    spans.iter().find(is_it).unwrap_or_else(|| panic!("{id}: {spans:#?}"))
}

#[track_caller]
fn expect(span: &Span, name: &str, expected: &[(&str, Option<&str>)]) {
    assert_eq!((&*span.name, span.kind), (name, 2), "{span:#?}");
    for (key, value) in expected {
        assert_eq!(attribute(span, key).as_deref(), *value, "{key}: {span:#?}");
    }
    let is_failed = span.status.as_ref().is_some_and(|status| status.code == 2);
    assert_eq!(is_failed, attribute(span, "error.type").is_some(), "{span:#?}");
}

/// Returns the value of a metric.
fn metric(client: &mut HttpClient, name: &str) -> u64 {
    let response = client.exchange(&Request::new("GET", "/metrics"));
    let text = String::from_utf8(response.body).expect("UTF-8");
    let sample = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    sample.trim().parse().expect("a number")
}

const QUEUE_FULL: &str = "corelane_spans_dropped_total{reason=\"queue_full\"}";
const NOT_ACCEPTED: &str = "corelane_spans_dropped_total{reason=\"not_accepted\"}";

#[test]
fn span_has_attributes_of_mcp() {
    over_each_ring(http_and_tcp_options(), |mut options| {
        let collector = Collector::start();
        options.traces.endpoint = Some(collector.url());
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_tcp();
        client.exchange(traced(echo(1)));
        client.exchange(modern(call("two", "add", json!({"a": "no number"}))));
        client.exchange(modern(call(3, "made-up", json!({}))));
        client.exchange(modern(request(4, "tools/list", json!({}))));
        client.exchange(modern(request(5, "no/such", json!({}))));
        let uri = json!({"uri": "test://one"});
        client.exchange(modern(request(6, "resources/read", uri)));
        // These are answered later.
        client.exchange(traced(modern(call(7, "slow", json!({"steps": 1, "step_ms": 0})))));
        client.send(modern(call(8, "until-cancelled", json!({}))));
        assert_eq!(server.next_signal(), "begun");
        client.send(cancelled(8));
        assert_eq!(server.next_signal(), "cancelled");
        drop(client);
        server.close();
        let spans = collector.receive(8);
        let of_tool = |tool, error| {
            [
                ("mcp.method.name", Some("tools/call")),
                ("gen_ai.operation.name", Some("execute_tool")),
                ("gen_ai.tool.name", Some(tool)),
                ("mcp.protocol.version", Some("2026-07-28")),
                ("network.transport", Some("tcp")),
                ("network.protocol.name", None),
                ("client.address", Some("127.0.0.1")),
                ("error.type", error),
            ]
        };
        for (id, tool) in [("1", "echo"), ("7", "slow")] {
            let span = of_request(&spans, id);
            expect(span, &format!("tools/call {tool}"), &of_tool(tool, None));
            assert_eq!((&*span.trace_id, &*span.parent_span_id), (&TRACE_ID[..], &PARENT_ID[..]));
            assert_eq!((&*span.trace_state, span.flags), ("vendor=1", 0x301));
        }
        let invalid = of_request(&spans, "two");
        let error = attribute(invalid, "error.type").expect("it has failed");
        expect(invalid, "tools/call add", &of_tool("add", Some(&error)));
        assert!(invalid.parent_span_id.is_empty() && invalid.links.is_empty(), "{invalid:#?}");
        let code = Some("-32602");
        let unknown = of_request(&spans, "3");
        expect(unknown, "tools/call", &of_tool("made-up", code));
        expect(unknown, "tools/call", &[("rpc.response.status_code", code)]);
        expect(of_request(&spans, "4"), "tools/list", &[("error.type", None)]);
        let other = [("mcp.method.name", Some("no/such")), ("error.type", Some("-32601"))];
        expect(of_request(&spans, "5"), "_OTHER", &other);
        let read = [("mcp.resource.uri", Some("test://one"))];
        expect(of_request(&spans, "6"), "resources/read", &read);
        let ended = [("error.type", Some("cancelled"))];
        expect(of_request(&spans, "8"), "tools/call until-cancelled", &ended);
    });
}

#[test]
fn context_of_meta_precedes_that_of_header() {
    let collector = Collector::start();
    let server = TestServer::with_test_tools(options_with(collector.url()));
    let mut client = server.connect_http();
    let by_header = |message: &Value| Request::modern(message).field("traceparent", TRACE);
    client.exchange(&by_header(&echo(1)).field("tracestate", "vendor=2"));
    client.exchange(&Request::modern(&traced(echo(2))).field("traceparent", OTHER_TRACE));
    client.exchange(&by_header(&traced(echo(3))));
    client.exchange(&Request::modern(&echo(4)).field("traceparent", OTHER_TRACE));
    client.exchange(&Request::modern(&echo(5)).field("traceparent", "malformed"));
    drop(client);
    server.close();
    // The caller of the fourth is not sampled.
    let spans = collector.receive(4);
    let transport = [("network.transport", Some("tcp")), ("network.protocol.name", Some("http"))];
    for (id, state) in [("1", "vendor=2"), ("2", "vendor=1"), ("3", "vendor=1")] {
        let span = of_request(&spans, id);
        expect(span, "tools/call echo", &transport);
        assert_eq!((&*span.trace_id, &*span.parent_span_id), (&TRACE_ID[..], &PARENT_ID[..]));
        assert_eq!(span.trace_state, state);
    }
    let links = |id| of_request(&spans, id).links.iter().map(|link| link.span_id.clone());
    assert_eq!(links("2").collect::<Vec<_>>(), [OTHER_PARENT_ID]);
    assert_eq!(links("1").count() + links("3").count(), 0);
    assert!(of_request(&spans, "5").parent_span_id.is_empty());
}

#[test]
fn session_has_span_of_each_request() {
    let collector = Collector::start();
    let server = TestServer::with_test_tools(options_with(collector.url()));
    let mut lines = server.connect_tcp();
    lines.handshake(LEGACY);
    lines.exchange(call(2, "echo", json!({"message": "m"})));
    drop(lines);
    server.close();
    let spans = collector.receive(2);
    let revision = ("mcp.protocol.version", Some(LEGACY));
    assert_eq!(spans[0].name, "initialize");
    for span in &spans {
        expect(span, &span.name, &[revision, ("mcp.session.id", None)]);
    }
}

#[test]
fn handshake_over_http_has_address_of_client() {
    let collector = Collector::start();
    let server = TestServer::with_test_tools(options_with(collector.url()));
    let mut client = server.connect_http().with_revision(LEGACY);
    client.exchange(&Request::post(initialize(1, LEGACY)));
    let own = client.socket().local_addr().unwrap();
    drop(client);
    server.close();
    let spans = collector.receive(1);
    let (address, port) = (own.ip().to_string(), own.port().to_string());
    let expected = [("client.address", Some(&*address)), ("client.port", Some(&*port))];
    expect(&spans[0], "initialize", &expected);
}

#[test]
fn sampler_decides_without_parent() {
    for (sampler, ratio, expected) in [
        (TraceSampler::AlwaysOn, Ratio::from_millionths(0), 2),
        (TraceSampler::ParentBasedAlwaysOff, Ratio::ONE, 1),
        (TraceSampler::ParentBasedTraceIdRatio, Ratio::from_millionths(0), 1),
        (TraceSampler::TraceIdRatio, Ratio::ONE, 2),
    ] {
        let collector = Collector::start();
        let mut options = options_with(collector.url());
        (options.traces.sampler, options.traces.sampling_ratio) = (sampler, ratio);
        let server = TestServer::start(options);
        let mut client = server.connect_tcp();
        client.exchange(traced(echo(1)));
        client.exchange(echo(2));
        drop(client);
        server.close();
        assert_eq!(collector.receive(expected).len(), expected, "{sampler:?}");
    }
}

#[test]
fn server_serves_while_collector_is_away() {
    // Nothing listens there.
    let mut options = options_with("http://127.0.0.1:1".to_owned());
    options.traces.queue_spans_max = 4;
    let server = TestServer::start(options);
    let (mut client, mut http) = (server.connect_tcp(), server.connect_http());
    let mut served = 0;
    while metric(&mut http, QUEUE_FULL) == 0 {
        let response = client.exchange(echo(served));
        assert_eq!(response["id"], served, "{response}");
        served += 1;
        assert!(served < 10_000, "no span was dropped");
    }
    assert_eq!(metric(&mut http, "corelane_spans_exported_total"), 0);
    drop((client, http));
    server.close();
}

#[test]
fn overloaded_collector_gets_spans_again() {
    let collector = Collector::responding([
        (502, ""),
        (503, "Retry-After: 1\r\n"),
        (429, "Retry-After: 0\r\n"),
    ]);
    let server = TestServer::start(options_with(collector.url()));
    let (mut client, mut http) = (server.connect_tcp(), server.connect_http());
    client.exchange(echo(1));
    let bodies = [(); 4].map(|()| collector.next_export().body);
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    while metric(&mut http, "corelane_spans_exported_total") == 0 {}
    assert_eq!((metric(&mut http, NOT_ACCEPTED), metric(&mut http, QUEUE_FULL)), (0, 0));
    drop((client, http));
    server.close();
    assert!(collector.received().is_empty());
}

#[test]
fn refused_spans_are_dropped_and_counted() {
    let collector = Collector::responding([(400, "Retry-After: 0\r\n")]);
    let server = TestServer::start(options_with(collector.url()));
    let (mut client, mut http) = (server.connect_tcp(), server.connect_http());
    for (id, dropped) in [(1, 1), (2, 1)] {
        client.exchange(echo(id));
        let export = collector.next_export();
        let spans: Vec<Span> = export.spans().cloned().collect();
        assert_eq!(spans.len(), 1, "{spans:#?}");
        of_request(&spans, &id.to_string());
        while metric(&mut http, NOT_ACCEPTED) < dropped {}
    }
    while metric(&mut http, "corelane_spans_exported_total") < 1 {}
    assert_eq!(metric(&mut http, NOT_ACCEPTED), 1);
    drop((client, http));
    server.close();
}

#[test]
fn request_has_headers_and_service_over_tls() {
    let (collector, issuer) = (Collector::start(), Issuer::new());
    let config = issuer.good_server();
    let terminator = Terminator::start(collector.address(), config, TlsFault::NoFault);
    let files = tempdir().expect("a folder");
    let (authorities, headers) = (files.path().join("ca.pem"), files.path().join("headers"));
    fs::write(&authorities, issuer.pem()).expect("it is written");
    fs::write(&headers, "Api-Key: secret\n\nX-Scope: a b\n").expect("it is written");
    let mut options = options_with(format!("https://localhost:{}", terminator.port()));
    options.traces.authorities = vec![authorities];
    options.traces.headers = vec![headers];
    options.traces.service_name = Some("shop".to_owned());
    options.traces.resource_attributes = vec!["service.namespace=a%2Cb".to_owned()];
    let server = TestServer::start(options);
    server.connect_tcp().exchange(echo(1));
    let export = collector.next_export();
    server.close();
    for line in ["POST /v1/traces HTTP/1.1", "Content-Type: application/x-protobuf"] {
        assert!(export.head.lines().any(|it| it == line), "{}", export.head);
    }
    for line in ["Api-Key: secret", "X-Scope: a b"] {
        assert!(export.head.lines().any(|it| it == line), "{}", export.head);
    }
    let attribute = |key| export.resource_attribute(key);
    assert_eq!(attribute("service.name").as_deref(), Some("shop"));
    assert_eq!(attribute("service.namespace").as_deref(), Some("a,b"));
    assert_eq!(attribute("telemetry.sdk.name").as_deref(), Some("corelane"));
}

#[test]
fn unusable_option_keeps_server_from_starting() {
    let files = tempdir().expect("a folder");
    let headers = files.path().join("headers");
    fs::write(&headers, "Api-Key secret").expect("it is written");
    let start = |change: &dyn Fn(&mut Options)| -> String {
        let mut options = options_with("http://127.0.0.1:1".to_owned());
        change(&mut options);
        let failed: StartError = TestServer::try_start(options).expect_err("it is invalid");
        failed.to_string()
    };
    let error = start(&|options| options.traces.headers = vec![headers.clone()]);
    assert!(error.contains("traces.headers: ") && error.contains("headers:1: "), "{error}");
    assert!(!error.contains("secret"), "{error}");
    let error = start(&|options| options.traces.endpoint = Some("collector:4317".to_owned()));
    assert!(error.contains("traces.endpoint: "), "{error}");
    let error = start(&|options| options.traces.authorities = vec!["/no/such.pem".into()]);
    assert!(error.contains("traces.authorities: /no/such.pem"), "{error}");
}
