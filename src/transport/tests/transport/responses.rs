//! HTTP/1.1 responses: a client parses exactly what was written.

use corelane_transport::http::fields::{Preflight, ResponseFields};
use corelane_transport::http::head_template::HeadTemplate;
use corelane_transport::http::response::{self, BodyKind, Response};
use corelane_transport::http::status::Status;
use proptest::prelude::*;

use crate::client_parser::{ParsedResponse, parse_response};

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn heads() -> HeadTemplate {
    HeadTemplate::new(784_111_777, 7, 0)
}

/// Writes `response` with `body` and parses it back; nothing is left over.
fn write_and_parse(response: &Response<'_>, body: &[u8]) -> ParsedResponse {
    let mut out = Vec::new();
    response::write_response(&mut out, response, &mut heads(), body);
    let parsed = parse_response(&out, false);
    assert_eq!(parsed.length, out.len());
    parsed
}

#[test]
fn json_response_has_type_date_and_length() {
    let parsed = write_and_parse(&Response::JSON, b"{\"id\":1}");
    assert_eq!((parsed.status, parsed.reason.as_str()), (200, "OK"));
    assert_eq!(parsed.names(), ["content-type", "date", "x-request-id", "content-length"]);
    assert_eq!(parsed.field("content-type"), Some("application/json"));
    assert_eq!(parsed.field("date"), Some(DATE));
    assert_eq!(parsed.field("content-length"), Some("8"));
    assert_eq!(parsed.body, b"{\"id\":1}");
}

#[test]
fn response_body_of_any_length_is_parsed() {
    for bytes in [0, 1, 9, 10, 99, 100, 999, 1_000, 65_535, 65_536, 1_234_567] {
        assert_eq!(write_and_parse(&Response::JSON, &vec![b'7'; bytes]).body.len(), bytes);
    }
}

#[test]
fn response_without_body_drops_written_body() {
    for status in [Status::ACCEPTED, Status::METHOD_NOT_ALLOWED] {
        let parsed = write_and_parse(&Response::new(status, BodyKind::Empty), b"lost");
        assert_eq!(parsed.names(), ["date", "x-request-id", "content-length"]);
        assert_eq!(parsed.field("content-length"), Some("0"));
    }
    for body in
        [BodyKind::EventStream, BodyKind::Json, BodyKind::Empty, BodyKind::Text("text/plain")]
    {
        let parsed = write_and_parse(&Response::new(Status::NO_CONTENT, body), b"lost");
        assert_eq!(parsed.names(), ["date", "x-request-id"]);
    }
}

#[test]
fn text_response_has_given_media_type() {
    let html = write_and_parse(
        &Response::new(Status::OK, BodyKind::Text("text/html; charset=utf-8")),
        b"<p>",
    );
    assert_eq!(html.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(html.body, b"<p>");
}

#[test]
fn closing_response_has_connection_close_and_length() {
    let mut response = Response::new(Status::BAD_REQUEST, BodyKind::Json);
    response.close = true;
    let parsed = write_and_parse(&response, b"{}");
    assert_eq!((parsed.status, parsed.field("connection")), (400, Some("close")));
    assert_eq!(parsed.body, b"{}");
}

#[test]
fn event_stream_is_chunked_or_ends_with_connection() {
    for (is_chunked, closes) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut response = Response::new(Status::OK, BodyKind::EventStream);
        (response.is_chunked, response.close) = (is_chunked, closes);
        let body: &[u8] = if is_chunked { b"2\r\n\n\n\r\n0\r\n\r\n" } else { b"\n\n" };
        let parsed = write_and_parse(&response, body);
        assert_eq!(parsed.body, b"\n\n");
        assert_eq!(parsed.field("content-type"), Some("text/event-stream"));
        assert_eq!(parsed.field("cache-control"), Some("no-cache, no-transform"));
        assert_eq!(parsed.field("x-accel-buffering"), Some("no"));
        assert_eq!(parsed.field("content-length"), None);
        assert_eq!(parsed.field("transfer-encoding"), is_chunked.then_some("chunked"));
        assert_eq!(parsed.field("connection"), (closes || !is_chunked).then_some("close"));
    }
}

#[test]
fn every_status_is_parsed_back() {
    for code in 200..600 {
        let status = Status::from(code);
        let parsed = write_and_parse(&Response::new(status, BodyKind::Json), b"{}");
        assert_eq!((parsed.status, parsed.reason.as_str()), (code, status.reason()));
    }
}

#[test]
fn response_fields_are_written() {
    let mut response = Response::new(Status::OK, BodyKind::Json);
    response.fields = ResponseFields {
        session_id: Some(b"0b0e"),
        protocol_version: Some("2025-11-25"),
        allow_origin: Some(b"https://inspector.example"),
        ..ResponseFields::default()
    };
    let parsed = write_and_parse(&response, b"{}");
    assert_eq!(parsed.field("mcp-session-id"), Some("0b0e"));
    assert_eq!(parsed.field("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(parsed.field("access-control-allow-origin"), Some("https://inspector.example"));
    assert_eq!(parsed.field("vary"), Some("Origin"));
    let exposed = parsed.field("access-control-expose-headers").unwrap();
    assert!(exposed.split(", ").any(|name| name == "Mcp-Session-Id"));
    assert_eq!(parsed.body, b"{}");
}

#[test]
fn preflight_response_has_no_body() {
    let mut response = Response::new(Status::NO_CONTENT, BodyKind::Empty);
    response.fields = ResponseFields {
        allow_origin: Some(b"https://inspector.example"),
        preflight: Some(Preflight {
            methods: "DELETE, GET, POST",
            headers: Some(b"mcp-method,mcp-param-region"),
            max_age_seconds: 7_200,
        }),
        ..ResponseFields::default()
    };
    let parsed = write_and_parse(&response, b"");
    assert_eq!(parsed.status, 204);
    assert_eq!(parsed.field("access-control-allow-origin"), Some("https://inspector.example"));
    assert_eq!(parsed.field("access-control-allow-methods"), Some("DELETE, GET, POST"));
    let headers = parsed.field("access-control-allow-headers");
    assert_eq!(headers, Some("mcp-method,mcp-param-region"));
    assert_eq!(parsed.field("access-control-max-age"), Some("7200"));
}

#[test]
fn pipelined_responses_share_one_buffer() {
    let mut out = response::CONTINUE.to_vec();
    let bodies: [&[u8]; 4] = [b"{}", b"", b"[1,2]", b"{\"long\":\"0123456789\"}"];
    for body in bodies {
        response::write_response(&mut out, &Response::JSON, &mut heads(), body);
        response::write_response(
            &mut out,
            &Response::new(Status::ACCEPTED, BodyKind::Empty),
            &mut heads(),
            b"",
        );
    }
    let mut rest = out.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    for body in bodies {
        let parsed = parse_response(rest, false);
        assert_eq!(parsed.body, body);
        rest = &rest[parsed.length..];
        let accepted = parse_response(rest, false);
        assert_eq!(accepted.status, 202);
        rest = &rest[accepted.length..];
    }
    assert!(rest.is_empty());
}

#[test]
fn head_response_has_content_length_without_body() {
    let mut out = b"before".to_vec();
    let mark = response::begin_response(&mut out, &Response::JSON, &heads());
    out.extend_from_slice(b"{\"status\":\"ready\"}");
    response::end_head_response(&mut out, mark, &mut heads());
    let parsed = parse_response(&out[6..], true);
    assert_eq!(parsed.field("content-length"), Some("18"));
    assert_eq!(parsed.length, out.len() - 6);
}

#[test]
fn replaced_response_head_keeps_the_body() {
    let mut longer = Response::new(Status::NOT_FOUND, BodyKind::Json);
    longer.fields.session_id = Some(&[b'f'; 200]);
    for (first, second) in [(Response::JSON, longer), (longer, Response::JSON)] {
        let mut out = b"before".to_vec();
        let mark = response::begin_response(&mut out, &first, &heads());
        out.extend_from_slice(b"{\"error\":{}}");
        let mark = response::replace_head(&mut out, mark, &second, &heads());
        assert_eq!(mark.head(), 6);
        assert_eq!(&out[mark.body()..], b"{\"error\":{}}");
        out.push(b' ');
        response::end_response(&mut out, mark, &mut heads());
        assert!(out.starts_with(b"before"));
        let parsed = parse_response(&out[6..], false);
        assert_eq!(parsed.status, second.status.code());
        assert_eq!(parsed.body, b"{\"error\":{}} ");
        assert_eq!(parsed.length, out.len() - 6);
    }
}

#[test]
fn replaced_head_without_length_removes_body() {
    for body in [BodyKind::EventStream, BodyKind::Empty] {
        let mut out = b"before".to_vec();
        let mark = response::begin_response(&mut out, &Response::JSON, &heads());
        out.extend_from_slice(b"{}");
        let mark =
            response::replace_head(&mut out, mark, &Response::new(Status::OK, body), &heads());
        assert_eq!((mark.head(), mark.body()), (6, out.len()));
        response::end_response(&mut out, mark, &mut heads());
        assert_eq!(parse_response(&out[6..], false).body, b"");
    }
}

#[test]
fn response_does_not_grow_a_large_buffer() {
    let mut out = Vec::with_capacity(2_048);
    let (place, capacity) = (out.as_ptr(), out.capacity());
    for status in [Status::OK, Status::CONFLICT] {
        out.clear();
        let mark = response::begin_response(&mut out, &Response::JSON, &heads());
        out.extend_from_slice(&[b'1'; 300]);
        let mark = response::replace_head(
            &mut out,
            mark,
            &Response::new(status, BodyKind::Json),
            &heads(),
        );
        response::end_response(&mut out, mark, &mut heads());
        assert_eq!((out.as_ptr(), out.capacity()), (place, capacity));
    }
}

fn bodies() -> impl Strategy<Value = BodyKind> {
    prop_oneof![
        Just(BodyKind::EventStream),
        Just(BodyKind::Json),
        Just(BodyKind::Empty),
        Just(BodyKind::Text("text/plain; charset=utf-8")),
    ]
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    let byte =
        prop_oneof![4 => 0x20_u8..0x7f, 1 => any::<u8>(), 1 => Just(b'\r'), 1 => Just(b'\n')];
    prop::collection::vec(byte, 0..60)
}

proptest! {
    #[test]
    fn response_fields_cannot_be_injected(
        code in 200_u16..600,
        body in bodies(),
        closes in any::<bool>(),
        is_chunked in any::<bool>(),
        session in prop::option::of(values()),
        origin in prop::option::of(values()),
        headers in prop::option::of(values()),
        text in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut response = Response::new(Status::from(code), body);
        (response.close, response.is_chunked) = (closes, is_chunked);
        response.fields = ResponseFields {
            session_id: session.as_deref(),
            allow_origin: origin.as_deref(),
            preflight: headers.as_deref().map(|headers| Preflight {
                methods: "POST",
                headers: Some(headers),
                max_age_seconds: 60,
            }),
            ..ResponseFields::default()
        };
        let is_stream = body == BodyKind::EventStream && !response.status.forbids_body();
        let body_bytes: &[u8] = if is_stream && is_chunked { b"0\r\n\r\n" } else { &text };
        let parsed = write_and_parse(&response, body_bytes);
        prop_assert_eq!(parsed.status, code);
        let known = [
            "access-control-allow-headers", "access-control-allow-methods",
            "access-control-allow-origin", "access-control-expose-headers",
            "access-control-max-age", "cache-control", "connection", "content-length",
            "content-type", "date", "x-request-id", "mcp-session-id", "sec-websocket-version",
            "transfer-encoding", "upgrade", "vary", "x-accel-buffering",
        ];
        for name in parsed.names() {
            prop_assert!(known.contains(&name), "unexpected field {}", name);
        }
        let has_text =
            matches!(body, BodyKind::Json | BodyKind::Text(_)) || is_stream && !is_chunked;
        let expected: &[u8] =
            if has_text && !response.status.forbids_body() { &text } else { b"" };
        prop_assert_eq!(&parsed.body, expected);
    }
}
