//! Answers over HTTP/1.1: what was written is what a client reads, and nothing more.

use corelane::transport::http::date::Date;
use corelane::transport::http::fields::{Allowed, Fields, Preflight};
use corelane::transport::http::response::{self, Body, Response};
use corelane::transport::http::status::Status;
use proptest::prelude::*;

use crate::wire::{Answer, read_answer};

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn date() -> Date {
    Date::new(784_111_777)
}

/// `response` with `body`, written and read back; nothing is left over.
fn answer(response: &Response<'_>, body: &[u8]) -> Answer {
    let mut out = Vec::new();
    response::whole(&mut out, response, &date(), body);
    let answer = read_answer(&out, false);
    assert_eq!(answer.bytes, out.len());
    answer
}

#[test]
fn a_json_answer_tells_its_type_its_date_and_its_length() {
    let answer = answer(&Response::JSON, b"{\"id\":1}");
    assert_eq!((answer.status, answer.reason.as_str()), (200, "OK"));
    assert_eq!(answer.names(), ["content-type", "date", "content-length"]);
    assert_eq!(answer.field("content-type"), Some("application/json"));
    assert_eq!(answer.field("date"), Some(DATE));
    assert_eq!(answer.field("content-length"), Some("8"));
    assert_eq!(answer.body, b"{\"id\":1}");
}

#[test]
fn a_body_of_any_length_is_read_whole() {
    for bytes in [0, 1, 9, 10, 99, 100, 999, 1_000, 65_535, 65_536, 1_234_567] {
        assert_eq!(answer(&Response::JSON, &vec![b'7'; bytes]).body.len(), bytes);
    }
}

#[test]
fn an_answer_without_a_body_says_so_whatever_was_written_behind_it() {
    for status in [Status::ACCEPTED, Status::METHOD_NOT_ALLOWED] {
        let answer = answer(&Response::new(status, Body::Nothing), b"lost");
        assert_eq!(answer.names(), ["date", "content-length"]);
        assert_eq!(answer.field("content-length"), Some("0"));
    }
    for body in [Body::EventStream, Body::Json, Body::Nothing, Body::Text("text/plain")] {
        let answer = answer(&Response::new(Status::NO_CONTENT, body), b"lost");
        assert_eq!(answer.names(), ["date"]);
    }
}

#[test]
fn a_text_is_of_the_type_that_was_named() {
    let html = answer(&Response::new(Status::OK, Body::Text("text/html; charset=utf-8")), b"<p>");
    assert_eq!(html.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(html.body, b"<p>");
}

#[test]
fn an_answer_that_closes_says_it_and_still_tells_its_length() {
    let mut response = Response::new(Status::BAD_REQUEST, Body::Json);
    response.closes = true;
    let answer = answer(&response, b"{}");
    assert_eq!((answer.status, answer.field("connection")), (400, Some("close")));
    assert_eq!(answer.body, b"{}");
}

#[test]
fn a_stream_comes_in_chunks_or_until_the_connection_ends() {
    for (is_chunked, closes) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut response = Response::new(Status::OK, Body::EventStream);
        (response.is_chunked, response.closes) = (is_chunked, closes);
        let body: &[u8] = if is_chunked { b"2\r\n\n\n\r\n0\r\n\r\n" } else { b"\n\n" };
        let answer = answer(&response, body);
        assert_eq!(answer.body, b"\n\n");
        assert_eq!(answer.field("content-type"), Some("text/event-stream"));
        assert_eq!(answer.field("cache-control"), Some("no-cache, no-transform"));
        assert_eq!(answer.field("x-accel-buffering"), Some("no"));
        assert_eq!(answer.field("content-length"), None);
        assert_eq!(answer.field("transfer-encoding"), is_chunked.then_some("chunked"));
        assert_eq!(answer.field("connection"), (closes || !is_chunked).then_some("close"));
    }
}

#[test]
fn every_status_reads_back_as_itself() {
    for code in 200..600 {
        let status = Status::from(code);
        let answer = answer(&Response::new(status, Body::Json), b"{}");
        assert_eq!((answer.status, answer.reason.as_str()), (code, status.reason()));
    }
}

#[test]
fn the_fields_of_an_answer_stand_between_its_date_and_its_length() {
    let mut response = Response::new(Status::OK, Body::Json);
    response.fields = Fields {
        session: Some(b"0b0e"),
        version: Some("2025-11-25"),
        origin: Some(Allowed::Origin(b"https://inspector.example")),
        ..Fields::default()
    };
    let answer = answer(&response, b"{}");
    assert_eq!(answer.field("mcp-session-id"), Some("0b0e"));
    assert_eq!(answer.field("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(answer.field("access-control-allow-origin"), Some("https://inspector.example"));
    assert_eq!(answer.field("vary"), Some("Origin"));
    let exposed = answer.field("access-control-expose-headers").unwrap();
    assert!(exposed.split(", ").any(|name| name == "Mcp-Session-Id"));
    assert_eq!(answer.body, b"{}");
}

#[test]
fn a_preflight_is_answered_without_a_body() {
    let mut response = Response::new(Status::NO_CONTENT, Body::Nothing);
    response.fields = Fields {
        origin: Some(Allowed::Any),
        preflight: Some(Preflight {
            verbs: "DELETE, GET, POST",
            headers: Some(b"mcp-method,mcp-param-region"),
            age_seconds_max: 7_200,
        }),
        ..Fields::default()
    };
    let answer = answer(&response, b"");
    assert_eq!(answer.status, 204);
    assert_eq!(answer.field("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.field("access-control-allow-methods"), Some("DELETE, GET, POST"));
    let headers = answer.field("access-control-allow-headers");
    assert_eq!(headers, Some("mcp-method,mcp-param-region"));
    assert_eq!(answer.field("access-control-max-age"), Some("7200"));
}

#[test]
fn pipelined_answers_follow_each_other_in_one_buffer() {
    let mut out = response::CONTINUE.to_vec();
    let bodies: [&[u8]; 4] = [b"{}", b"", b"[1,2]", b"{\"long\":\"0123456789\"}"];
    for body in bodies {
        response::whole(&mut out, &Response::JSON, &date(), body);
        response::whole(&mut out, &Response::new(Status::ACCEPTED, Body::Nothing), &date(), b"");
    }
    let mut rest = out.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    for body in bodies {
        let answer = read_answer(rest, false);
        assert_eq!(answer.body, body);
        rest = &rest[answer.bytes..];
        let accepted = read_answer(rest, false);
        assert_eq!(accepted.status, 202);
        rest = &rest[accepted.bytes..];
    }
    assert!(rest.is_empty());
}

#[test]
fn the_answer_to_a_head_has_the_length_of_the_body_that_it_leaves_out() {
    let mut out = b"before".to_vec();
    let mark = response::begin(&mut out, &Response::JSON, &date());
    out.extend_from_slice(b"{\"status\":\"ready\"}");
    response::end_without_body(&mut out, mark);
    let answer = read_answer(&out[6..], true);
    assert_eq!(answer.field("content-length"), Some("18"));
    assert_eq!(answer.bytes, out.len() - 6);
}

#[test]
fn another_head_takes_the_place_of_the_first_and_the_body_stays() {
    let mut longer = Response::new(Status::NOT_FOUND, Body::Json);
    longer.fields.session = Some(&[b'f'; 200]);
    for (first, second) in [(Response::JSON, longer), (longer, Response::JSON)] {
        let mut out = b"before".to_vec();
        let mark = response::begin(&mut out, &first, &date());
        out.extend_from_slice(b"{\"error\":{}}");
        let mark = response::amend(&mut out, mark, &second, &date());
        assert_eq!(mark.head(), 6);
        assert_eq!(&out[mark.body()..], b"{\"error\":{}}");
        out.push(b' ');
        response::end(&mut out, mark);
        assert!(out.starts_with(b"before"));
        let answer = read_answer(&out[6..], false);
        assert_eq!(answer.status, second.status.code());
        assert_eq!(answer.body, b"{\"error\":{}} ");
        assert_eq!(answer.bytes, out.len() - 6);
    }
}

#[test]
fn another_head_that_has_no_counted_body_removes_the_one_that_was_written() {
    for body in [Body::EventStream, Body::Nothing] {
        let mut out = b"before".to_vec();
        let mark = response::begin(&mut out, &Response::JSON, &date());
        out.extend_from_slice(b"{}");
        let mark = response::amend(&mut out, mark, &Response::new(Status::OK, body), &date());
        assert_eq!((mark.head(), mark.body()), (6, out.len()));
        response::end(&mut out, mark);
        assert_eq!(read_answer(&out[6..], false).body, b"");
    }
}

#[test]
fn a_buffer_with_room_for_an_answer_does_not_grow() {
    let mut out = Vec::with_capacity(2_048);
    let (place, capacity) = (out.as_ptr(), out.capacity());
    for status in [Status::OK, Status::CONFLICT] {
        out.clear();
        let mark = response::begin(&mut out, &Response::JSON, &date());
        out.extend_from_slice(&[b'1'; 300]);
        let mark = response::amend(&mut out, mark, &Response::new(status, Body::Json), &date());
        response::end(&mut out, mark);
        assert_eq!((out.as_ptr(), out.capacity()), (place, capacity));
    }
}

fn bodies() -> impl Strategy<Value = Body> {
    prop_oneof![
        Just(Body::EventStream),
        Just(Body::Json),
        Just(Body::Nothing),
        Just(Body::Text("text/plain; charset=utf-8")),
    ]
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    let byte =
        prop_oneof![4 => 0x20_u8..0x7f, 1 => any::<u8>(), 1 => Just(b'\r'), 1 => Just(b'\n')];
    prop::collection::vec(byte, 0..60)
}

proptest! {
    #[test]
    fn whatever_a_value_holds_an_answer_stays_one_answer_with_the_same_fields(
        code in 200_u16..600,
        body in bodies(),
        (closes, is_chunked) in any::<(bool, bool)>(),
        session in prop::option::of(values()),
        origin in prop::option::of(values()),
        headers in prop::option::of(values()),
        text in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut response = Response::new(Status::from(code), body);
        (response.closes, response.is_chunked) = (closes, is_chunked);
        response.fields = Fields {
            session: session.as_deref(),
            origin: origin.as_deref().map(Allowed::Origin),
            preflight: headers.as_deref().map(|headers| Preflight {
                verbs: "POST",
                headers: Some(headers),
                age_seconds_max: 60,
            }),
            ..Fields::default()
        };
        let is_stream = body == Body::EventStream && !response.status.forbids_body();
        let body_bytes: &[u8] = if is_stream && is_chunked { b"0\r\n\r\n" } else { &text };
        let answer = answer(&response, body_bytes);
        prop_assert_eq!(answer.status, code);
        let known = [
            "access-control-allow-headers", "access-control-allow-methods",
            "access-control-allow-origin", "access-control-expose-headers",
            "access-control-max-age", "cache-control", "connection", "content-length",
            "content-type", "date", "mcp-session-id", "sec-websocket-version",
            "transfer-encoding", "upgrade", "vary", "x-accel-buffering",
        ];
        for name in answer.names() {
            prop_assert!(known.contains(&name), "{} is none of ours", name);
        }
        let has_text = matches!(body, Body::Json | Body::Text(_)) || is_stream && !is_chunked;
        let expected: &[u8] =
            if has_text && !response.status.forbids_body() { &text } else { b"" };
        prop_assert_eq!(&answer.body, expected);
    }
}
