//! Valid requests: parsed heads, body ranges, buffering.

use crate::requests_fuzz::{RequestOutcome, check_stream};
use corelane_protocol::json::PADDING_BYTES;
use corelane_test_support::alloc_counter::count_allocations;
use corelane_transport::http::head::{
    BodyLength, ContentType, Field, Head, HttpMethod, RequestLimits,
};
use corelane_transport::http::reader::{RequestEvent, RequestReader};

const CALL: &str = concat!(
    "POST /mcp?a=b HTTP/1.1\r\n",
    "host: localhost:8080\r\n",
    "Origin:http://localhost \r\n",
    "ACCEPT: application/json, text/event-stream\r\n",
    "Content-Type: application/json; charset=utf-8\r\n",
    "MCP-Protocol-Version: \t2026-07-28\t \r\n",
    "mcp-method: tools/call\r\n",
    "Mcp-Name: =?base64?SGVsbG8=?=\r\n",
    "Mcp-Param-Region: us-west1\r\n",
    "mcp-param-Note:   \r\n",
    "Content-Length: 2\r\n",
    "\r\n",
    "{}",
);

/// Parses one head with the default limits.
fn head(text: &str) -> Head {
    let head = Head::parse(text.as_bytes(), &RequestLimits::default());
    head.expect("a valid head").expect("a complete head")
}

/// Returns the bodies of all requests of a stream.
fn bodies(stream: &str) -> Vec<String> {
    let outcomes = check_stream(stream.as_bytes(), &[], &RequestLimits::default());
    let bodies = outcomes.into_iter().map(|outcome| match outcome {
        RequestOutcome::Request(_, _, body) => String::from_utf8(body).expect("text"),
        RequestOutcome::Rejected(error, _) => panic!("{error:?}"),
    });
    bodies.collect()
}

/// Creates a reader, passes `arrival` and returns its first event.
fn read_first(arrival: &str) -> (RequestReader, RequestEvent) {
    let mut reader = RequestReader::new();
    let next = read_next(&mut reader, arrival);
    (reader, next)
}

fn read_next(reader: &mut RequestReader, arrival: &str) -> RequestEvent {
    let mut from = 0;
    let next = reader.next(arrival.as_bytes(), &mut from, &RequestLimits::default(), Vec::new);
    assert_eq!(from, arrival.len());
    next
}

#[test]
fn call_head_is_parsed_with_mcp_fields() {
    let head = head(CALL);
    let field = |field| head.field(CALL.as_bytes(), field).map(String::from_utf8_lossy);
    assert_eq!(head.method, HttpMethod::Post);
    assert_eq!(head.query(CALL.as_bytes()), b"a=b");
    assert_eq!(head.path(CALL.as_bytes()), b"/mcp");
    assert_eq!((head.minor_version, head.body), (1, BodyLength::Length(2)));
    assert_eq!((head.keep_alive, head.expects_continue), (true, false));
    assert_eq!(head.content_type, ContentType::Json);
    assert!(head.accept.is_present && head.accept.json && head.accept.event_stream);
    assert_eq!(field(Field::Host).as_deref(), Some("localhost:8080"));
    assert_eq!(field(Field::Origin).as_deref(), Some("http://localhost"));
    assert_eq!(field(Field::McpProtocolVersion).as_deref(), Some("2026-07-28"));
    assert_eq!(field(Field::McpMethod).as_deref(), Some("tools/call"));
    assert_eq!(field(Field::McpName).as_deref(), Some("=?base64?SGVsbG8=?="));
    assert_eq!(field(Field::McpSessionId), None);
    assert_eq!(head.bytes as usize, CALL.len() - 2);
}

#[test]
fn param_headers_are_found_by_prefix() {
    let head = head(CALL);
    assert!(head.has_param_headers);
    let params: Vec<_> = head.param_headers(CALL.as_bytes()).collect();
    assert_eq!(params, [(&b"Region"[..], &b"us-west1"[..]), (b"Note", b"")]);
}

#[test]
fn field_without_value_is_present_and_empty() {
    let text = "GET / HTTP/1.1\r\nHost:\r\nOrigin: \t\r\nLast-Event-ID:\r\n\r\n";
    let head = head(text);
    for field in [Field::Host, Field::Origin, Field::LastEventId] {
        assert_eq!(head.field(text.as_bytes(), field), Some(&b""[..]));
    }
    assert_eq!(head.field(text.as_bytes(), Field::Authorization), None);
}

#[test]
fn http_methods_are_case_sensitive() {
    let verb = |method| head(&format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n")).method;
    assert_eq!(verb("DELETE"), HttpMethod::Delete);
    assert_eq!(verb("GET"), HttpMethod::Get);
    assert_eq!(verb("HEAD"), HttpMethod::Head);
    assert_eq!(verb("OPTIONS"), HttpMethod::Options);
    assert_eq!(verb("POST"), HttpMethod::Post);
    assert_eq!(verb("post"), HttpMethod::Other);
    assert_eq!(verb("PATCH"), HttpMethod::Other);
}

#[test]
fn keep_alive_depends_on_version_and_options() {
    // RFC 9112, section 9.3.
    let keeps = |version, connection| {
        let text = format!("GET / HTTP/1.{version}\r\nHost: a\r\nConnection: {connection}\r\n\r\n");
        head(&text).keep_alive
    };
    assert!(keeps(1, "") && keeps(1, "upgrade, te") && keeps(1, "keep-alive"));
    assert!(!keeps(1, "close") && !keeps(1, "te , CLOSE") && !keeps(1, "close, keep-alive"));
    assert!(!keeps(0, "") && keeps(0, "Keep-Alive") && !keeps(0, "keep-alive, close"));
}

#[test]
fn absolute_form_target_is_path_and_host() {
    // RFC 9112, section 3.2.2.
    let text = "GET http://A:80/mcp?b HTTP/1.1\r\nHost: a:80\r\n\r\n";
    assert_eq!(head(text).path(text.as_bytes()), b"/mcp");
    assert_eq!(head(text).query(text.as_bytes()), b"b");
    // The host of the target takes precedence over another one in Host.
    let text = "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(head(text).field(text.as_bytes(), Field::Host), Some(&b"b"[..]));
    let text = "GET http://a:80 HTTP/1.0\r\n\r\n";
    let head = head(text);
    assert_eq!(head.path(text.as_bytes()), b"/");
    assert_eq!((head.query(text.as_bytes()), head.has_query()), (&b""[..], false));
    assert_eq!(head.field(text.as_bytes(), Field::Host), Some(&b"a:80"[..]));
}

#[test]
fn expect_continue_is_ignored_in_http_1_0() {
    // RFC 9110, section 10.1.1.
    let text = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n";
    assert!(head(text).expects_continue);
    assert!(!head(&text.replace("HTTP/1.1", "HTTP/1.0")).expects_continue);
}

#[test]
fn pipelined_requests_are_parsed_in_order() {
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let chunks =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    let stream = [CALL, get, "\r\n", chunks, CALL, chunks, get, CALL].concat();
    assert_eq!(bodies(&stream), ["{}", "", "ab", "{}", "ab", "", "{}"]);
}

#[test]
fn chunks_are_joined_without_extensions_and_trailers() {
    // RFC 9112, sections 7.1.1 to 7.1.3.
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n";
    let body = concat!(
        "3\r\n{\"a\r\n",
        "004;ext=\"a;b\"\r\n\":1}\r\n",
        "0 \t;last\r\n",
        "Trailer: ignored\r\nContent-Length: 5\r\nEmpty:\r\n",
        "\r\n",
    );
    assert_eq!(bodies(&[head, body, CALL].concat()), ["{\"a\":1}", "{}"]);
    assert_eq!(bodies(&[head, "0\r\n\r\n"].concat()), [""]);
    let large = "a".repeat(0xab);
    assert_eq!(bodies(&format!("{head}aB\r\n{large}\r\n0\r\n\r\n")), [large]);
}

#[test]
fn request_in_one_read_is_parsed_in_place() {
    let (reader, next) = read_first(CALL);
    let RequestEvent::InPlace { start, body, .. } = next else { panic!("{next:?}") };
    assert_eq!((start, &CALL[body]), (0, "{}"));
    assert_eq!((reader.held_bytes(), reader.is_inside_request()), (0, false));
}

#[test]
fn pending_body_is_announced_once_with_head() {
    let (mut reader, next) = read_first(&CALL[..CALL.len() - 2]);
    assert_eq!(next, RequestEvent::HeadComplete);
    let (head, bytes) = reader.pending_head();
    assert_eq!(head.field(bytes, Field::McpMethod), Some(&b"tools/call"[..]));
    assert!(reader.is_inside_request());
    assert_eq!(read_next(&mut reader, ""), RequestEvent::NeedMore);
    assert_eq!(read_next(&mut reader, "{"), RequestEvent::NeedMore);
    assert_eq!(read_next(&mut reader, "}"), RequestEvent::Assembled);
    let assembled = reader.take();
    assert_eq!(&assembled.bytes[assembled.body.clone()], b"{}");
    assert_eq!(assembled.bytes[assembled.body.end..], [0; PADDING_BYTES]);
    assert_eq!((reader.held_bytes(), reader.is_inside_request()), (0, false));
}

#[test]
fn discarded_request_is_skipped_next_is_parsed() {
    let chunks = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET";
    for (start, rest) in [(&CALL[..CALL.len() - 2], "{}"), (chunks, " /\r\n0\r\na: b\r\n\r\n")] {
        let (mut reader, next) = read_first(start);
        assert_eq!(next, RequestEvent::HeadComplete);
        assert!(reader.discard_request().len() >= start.find("\r\n\r\n").unwrap());
        assert_eq!((reader.held_bytes(), reader.is_inside_request()), (0, true));
        for byte in rest.split("").filter(|byte| !byte.is_empty()) {
            assert_eq!(read_next(&mut reader, byte), RequestEvent::NeedMore);
        }
        assert!(!reader.is_inside_request());
        assert!(matches!(read_next(&mut reader, CALL), RequestEvent::InPlace { start: 0, .. }));
    }
}

#[test]
fn partial_request_uses_the_offered_buffer() {
    let mut reader = RequestReader::new();
    let offered = Vec::with_capacity(4096);
    let place = offered.as_ptr();
    let (first, second) = CALL.as_bytes().split_at(100);
    let limits = RequestLimits::default();
    assert_eq!(reader.next(first, &mut 0, &limits, || offered), RequestEvent::NeedMore);
    assert_eq!(reader.held_bytes(), 100);
    let next = reader.next(second, &mut 0, &limits, || panic!("a buffer was offered already"));
    assert_eq!(next, RequestEvent::Assembled);
    assert_eq!(reader.take().bytes.as_ptr(), place);
}

#[test]
fn requests_allocate_only_for_first_partial_one() {
    let (stream, limits) = (CALL.repeat(16), RequestLimits::default());
    let mut pool = vec![Vec::with_capacity(4096)];
    let mut reader = RequestReader::new();
    for (length, expected) in [(stream.len(), 0), (500, 1), (70, 0), (1, 0)] {
        let mut count = 0;
        let allocated = count_allocations(|| {
            for arrival in stream.as_bytes().chunks(length) {
                let mut from = 0;
                loop {
                    let spare = || pool.pop().expect("one partial request at a time");
                    match reader.next(arrival, &mut from, &limits, spare) {
                        RequestEvent::HeadComplete => {}
                        RequestEvent::Assembled => {
                            let mut bytes = reader.take().bytes;
                            bytes.clear();
                            pool.push(bytes);
                            count += 1;
                        }
                        RequestEvent::InPlace { .. } => count += 1,
                        RequestEvent::NeedMore => break,
                        RequestEvent::Rejected(error) => panic!("{error:?}"),
                    }
                }
            }
        });
        assert_eq!((count, allocated), (16, expected), "pieces of {length}");
    }
}

#[test]
fn announced_length_reserves_bounded_memory() {
    let text = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n";
    let (mut reader, next) = read_first(text);
    assert_eq!(next, RequestEvent::HeadComplete);
    assert!(reader.discard_request().capacity() < 100_000);
}

#[test]
fn idle_request_reader_is_at_most_16_bytes() {
    assert!(size_of::<RequestReader>() <= 16, "{}", size_of::<RequestReader>());
}

#[test]
fn rejected_reader_reads_nothing_more() {
    let (mut reader, next) = read_first("\r\n");
    assert_eq!(next, RequestEvent::NeedMore);
    let mut from = 0;
    let next = reader.next(b"?\r\n", &mut from, &RequestLimits::default(), Vec::new);
    assert!(matches!(next, RequestEvent::Rejected(_)));
    assert_eq!(read_next(&mut reader, CALL), RequestEvent::NeedMore);
    assert_eq!((reader.held_bytes(), reader.is_inside_request()), (0, false));
}
