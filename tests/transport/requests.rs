//! Requests that are taken: what is read of a head, where a body stands, what is held meanwhile.

use crate::counting::allocations;
use corelane::transport::http::fuzz::{self, Said};
use corelane::transport::http::head::{BodyLength, ContentType, Field, Head, Verb};
use corelane::transport::http::limits::Limits;
use corelane::transport::http::reader::{Next, PADDING, RequestReader};

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

/// Reads one head with the usual limits.
fn head(text: &str) -> Head {
    let head = Head::parse(text.as_bytes(), &Limits::default());
    head.expect("it is taken").expect("it is whole")
}

/// The bodies of all requests of a stream, however it is cut.
fn bodies(stream: &str) -> Vec<String> {
    let said = fuzz::stream(stream.as_bytes(), &[], &Limits::default());
    let bodies = said.into_iter().map(|said| match said {
        Said::Request(_, _, body) => String::from_utf8(body).expect("it is text"),
        Said::Refused(refusal) => panic!("{refusal:?}"),
    });
    bodies.collect()
}

/// A reader that has been given `arrival`, and its first word on it.
fn feed(arrival: &str) -> (RequestReader, Next) {
    let mut reader = RequestReader::new();
    let next = go_on(&mut reader, arrival);
    (reader, next)
}

fn go_on(reader: &mut RequestReader, arrival: &str) -> Next {
    let mut from = 0;
    let next = reader.next(arrival.as_bytes(), &mut from, &Limits::default(), Vec::new);
    assert_eq!(from, arrival.len());
    next
}

#[test]
fn a_call_is_read_with_everything_that_mcp_asks_of_its_head() {
    let head = head(CALL);
    let field = |field| head.field(CALL.as_bytes(), field).map(String::from_utf8_lossy);
    assert_eq!(head.verb, Verb::Post);
    assert_eq!(head.target.of(CALL.as_bytes()), b"/mcp?a=b");
    assert_eq!(head.path(CALL.as_bytes()), b"/mcp");
    assert_eq!((head.minor_version, head.body), (1, BodyLength::Length(2)));
    assert_eq!((head.keeps_alive, head.expects_continue), (true, false));
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
fn mirrored_arguments_are_found_by_the_end_of_their_names() {
    let head = head(CALL);
    assert!(head.has_params);
    let params: Vec<_> = head.params(CALL.as_bytes()).collect();
    assert_eq!(params, [(&b"Region"[..], &b"us-west1"[..]), (b"Note", b"")]);
}

#[test]
fn a_field_without_a_value_is_present_and_empty() {
    let text = "GET / HTTP/1.1\r\nHost:\r\nOrigin: \t\r\nLast-Event-ID:\r\n\r\n";
    let head = head(text);
    for field in [Field::Host, Field::Origin, Field::LastEventId] {
        assert_eq!(head.field(text.as_bytes(), field), Some(&b""[..]));
    }
    assert_eq!(head.field(text.as_bytes(), Field::Authorization), None);
}

#[test]
fn methods_differ_by_their_case() {
    let verb = |method| head(&format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n")).verb;
    assert_eq!(verb("DELETE"), Verb::Delete);
    assert_eq!(verb("GET"), Verb::Get);
    assert_eq!(verb("HEAD"), Verb::Head);
    assert_eq!(verb("OPTIONS"), Verb::Options);
    assert_eq!(verb("POST"), Verb::Post);
    assert_eq!(verb("post"), Verb::Other);
    assert_eq!(verb("PATCH"), Verb::Other);
}

#[test]
fn a_connection_is_kept_as_its_version_and_its_words_say() {
    // RFC 9112, section 9.3.
    let keeps = |version, connection| {
        let text = format!("GET / HTTP/1.{version}\r\nHost: a\r\nConnection: {connection}\r\n\r\n");
        head(&text).keeps_alive
    };
    assert!(keeps(1, "") && keeps(1, "upgrade, te") && keeps(1, "keep-alive"));
    assert!(!keeps(1, "close") && !keeps(1, "te , CLOSE") && !keeps(1, "close, keep-alive"));
    assert!(!keeps(0, "") && keeps(0, "Keep-Alive") && !keeps(0, "keep-alive, close"));
}

#[test]
fn a_target_in_absolute_form_is_a_path_and_a_host() {
    // RFC 9112, section 3.2.2.
    let text = "GET http://A:80/mcp?b HTTP/1.1\r\nHost: a:80\r\n\r\n";
    assert_eq!(head(text).target.of(text.as_bytes()), b"/mcp?b");
    let text = "GET http://a:80 HTTP/1.0\r\n\r\n";
    let head = head(text);
    assert_eq!(head.target.of(text.as_bytes()), b"/");
    assert_eq!(head.field(text.as_bytes(), Field::Host), Some(&b"a:80"[..]));
}

#[test]
fn only_a_peer_of_1_1_waits_for_continue() {
    // RFC 9110, section 10.1.1.
    let text = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n";
    assert!(head(text).expects_continue);
    assert!(!head(&text.replace("HTTP/1.1", "HTTP/1.0")).expects_continue);
}

#[test]
fn pipelined_requests_are_read_one_behind_the_other() {
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let chunks =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    let stream = [CALL, get, "\r\n", chunks, CALL, chunks, get, CALL].concat();
    assert_eq!(bodies(&stream), ["{}", "", "ab", "{}", "ab", "", "{}"]);
}

#[test]
fn chunks_are_joined_and_what_stands_between_them_is_dropped() {
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
fn a_request_in_one_arrival_is_read_where_it_stands() {
    let (reader, next) = feed(CALL);
    let Next::Inside { start, body, .. } = next else { panic!("{next:?}") };
    assert_eq!((start, &CALL[body]), (0, "{}"));
    assert_eq!((reader.held_bytes(), reader.is_inside_request()), (0, false));
}

#[test]
fn a_body_to_be_waited_for_is_announced_once_with_its_head() {
    let (mut reader, next) = feed(&CALL[..CALL.len() - 2]);
    assert_eq!(next, Next::Announced);
    let (head, bytes) = reader.announced();
    assert_eq!(head.field(bytes, Field::McpMethod), Some(&b"tools/call"[..]));
    assert!(reader.is_inside_request());
    assert_eq!(go_on(&mut reader, ""), Next::NeedMore);
    assert_eq!(go_on(&mut reader, "{"), Next::NeedMore);
    assert_eq!(go_on(&mut reader, "}"), Next::Assembled);
    let assembled = reader.take();
    assert_eq!(&assembled.bytes[assembled.body.clone()], b"{}");
    assert_eq!(assembled.bytes[assembled.body.end..], [0; PADDING]);
    assert_eq!((reader.held_bytes(), reader.is_inside_request()), (0, false));
}

#[test]
fn a_request_given_up_is_skipped_and_the_next_one_is_read() {
    let chunks = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET";
    for (start, rest) in [(&CALL[..CALL.len() - 2], "{}"), (chunks, " /\r\n0\r\na: b\r\n\r\n")] {
        let (mut reader, next) = feed(start);
        assert_eq!(next, Next::Announced);
        assert!(reader.give_up().len() >= start.find("\r\n\r\n").unwrap());
        assert_eq!((reader.held_bytes(), reader.is_inside_request()), (0, true));
        for byte in rest.split("").filter(|byte| !byte.is_empty()) {
            assert_eq!(go_on(&mut reader, byte), Next::NeedMore);
        }
        assert!(!reader.is_inside_request());
        assert!(matches!(go_on(&mut reader, CALL), Next::Inside { start: 0, .. }));
    }
}

#[test]
fn a_request_that_is_kept_lives_in_the_memory_that_was_offered() {
    let mut reader = RequestReader::new();
    let offered = Vec::with_capacity(4096);
    let place = offered.as_ptr();
    let (first, second) = CALL.as_bytes().split_at(100);
    let limits = Limits::default();
    assert_eq!(reader.next(first, &mut 0, &limits, || offered), Next::NeedMore);
    assert_eq!(reader.held_bytes(), 100);
    let next = reader.next(second, &mut 0, &limits, || panic!("it has memory"));
    assert_eq!(next, Next::Assembled);
    assert_eq!(reader.take().bytes.as_ptr(), place);
}

#[test]
fn requests_take_no_memory_of_their_own_but_a_place_for_the_first_that_is_cut() {
    let (stream, limits) = (CALL.repeat(16), Limits::default());
    let mut pool = vec![Vec::with_capacity(4096)];
    let mut reader = RequestReader::new();
    for (length, expected) in [(stream.len(), 0), (500, 1), (70, 0), (1, 0)] {
        let mut taken = 0;
        let made = allocations(|| {
            for arrival in stream.as_bytes().chunks(length) {
                let mut from = 0;
                loop {
                    let spare = || pool.pop().expect("one request is cut at a time");
                    match reader.next(arrival, &mut from, &limits, spare) {
                        Next::Announced => {}
                        Next::Assembled => {
                            let mut bytes = reader.take().bytes;
                            bytes.clear();
                            pool.push(bytes);
                            taken += 1;
                        }
                        Next::Inside { .. } => taken += 1,
                        Next::NeedMore => break,
                        Next::Refused(refusal) => panic!("{refusal:?}"),
                    }
                }
            }
        });
        assert_eq!((taken, made), (16, expected), "cut every {length}");
    }
}

#[test]
fn a_length_that_is_only_said_takes_little_memory() {
    let text = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n";
    let (mut reader, next) = feed(text);
    assert_eq!(next, Next::Announced);
    assert!(reader.give_up().capacity() < 100_000);
}

#[test]
fn an_idle_reader_is_small() {
    assert!(size_of::<RequestReader>() <= 16, "{}", size_of::<RequestReader>());
}

#[test]
fn nothing_is_read_behind_a_refusal() {
    let (mut reader, next) = feed("\r\n");
    assert_eq!(next, Next::NeedMore);
    let mut from = 0;
    let next = reader.next(b"?\r\n", &mut from, &Limits::default(), Vec::new);
    assert!(matches!(next, Next::Refused(_)));
    assert_eq!(go_on(&mut reader, CALL), Next::NeedMore);
    assert_eq!((reader.held_bytes(), reader.is_inside_request()), (0, false));
}
