//! Malformed and ambiguous requests, each with the section that forbids it.
//!
//! Every stream is also read byte by byte, and after a valid request.

use crate::requests_fuzz::{RequestOutcome, check_stream};
use corelane_transport::http::head::RequestLimits;

const LIMITS: RequestLimits =
    RequestLimits { head_bytes_max: 300, fields_max: 6, body_bytes_max: 100 };

/// Asserts that `stream` is rejected with status `code` and `reason`, and nothing else is read.
fn assert_rejected(stream: impl AsRef<[u8]>, code: u16, reason: &str) {
    let stream = stream.as_ref();
    let shown = stream.escape_ascii();
    let outcomes = check_stream(stream, &[], &LIMITS);
    let [RequestOutcome::Rejected(error, _)] = &outcomes[..] else {
        panic!("{shown}: {outcomes:?}")
    };
    assert_eq!(error.status.code(), code, "{shown}: {}", error.reason);
    assert!(error.reason.contains(reason), "{shown}: {}", error.reason);
    let pipelined = [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", stream].concat();
    let outcomes = check_stream(&pipelined, &[], &LIMITS);
    let [RequestOutcome::Request(..), RequestOutcome::Rejected(second, _)] = &outcomes[..] else {
        panic!("{shown}: {outcomes:?}")
    };
    assert_eq!(second, error, "{shown}");
}

/// Returns a POST with these header lines and what follows the head.
fn post(lines: &str, body: &str) -> String {
    format!("POST /mcp HTTP/1.1\r\nHost: a\r\n{lines}\r\n{body}")
}

/// Returns a POST with this chunked body.
fn chunked(body: &str) -> String {
    post("Transfer-Encoding: chunked\r\n", body)
}

#[test]
fn content_length_with_chunked_is_rejected() {
    // RFC 9112, section 6.1: request smuggling.
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "transfer-encoding: CHUNKED\r\ncontent-length: 0\r\n",
    ] {
        let reason = "Content-Length and Transfer-Encoding are both present";
        assert_rejected(post(lines, "0\r\n\r\n"), 400, reason);
    }
}

#[test]
fn repeated_content_length_is_rejected() {
    // RFC 9112, section 6.3, item 5.
    for (one, other) in [("5", "6"), ("5", "5"), ("0", "00")] {
        let lines = format!("Content-Length: {one}\r\nContent-Length: {other}\r\n");
        assert_rejected(post(&lines, "12345"), 400, "Content-Length is repeated");
    }
}

#[test]
fn non_numeric_content_length_is_rejected() {
    // RFC 9112, section 6.3, item 5; RFC 9110, section 8.6.
    for length in ["", "+5", "-5", "5,5", "5, 5", "0x5", "5.0", "5 5", "five", "5;", "\u{665}"] {
        let lines = format!("Content-Length: {length}\r\n");
        assert_rejected(post(&lines, "12345"), 400, "is not a number");
    }
}

#[test]
fn ambiguous_transfer_encoding_is_rejected() {
    // RFC 9112, sections 6.1 and 6.3, item 4: chunked must be last and occur once.
    for coding in ["chunked, gzip", "chunked, chunked", "", ",", "chunked,", ", chunked"] {
        let lines = format!("Transfer-Encoding: {coding}\r\n");
        let reason = "does not end with a single chunked";
        assert_rejected(post(&lines, "0\r\n\r\n"), 400, reason);
    }
    let lines = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n";
    assert_rejected(post(lines, "0\r\n\r\n"), 400, "chunked is repeated");
}

#[test]
fn unknown_transfer_encoding_is_not_implemented() {
    // RFC 9112, section 6.1, last paragraph.
    for coding in ["gzip", "gzip, chunked", "identity", "xchunked", "chunked;a=b", "\"chunked\""] {
        let lines = format!("Transfer-Encoding: {coding}\r\n");
        assert_rejected(post(&lines, "0\r\n\r\n"), 501, "only chunked");
    }
}

#[test]
fn transfer_encoding_in_http_1_0_is_rejected() {
    // RFC 9112, section 6.1: a forwarding proxy may have framed it differently.
    let request = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_rejected(request, 400, "not allowed in HTTP/1.0");
}

#[test]
fn folded_header_line_is_rejected() {
    // RFC 9112, section 5.2.
    assert_rejected(post("A: b\r\n c\r\n", ""), 400, "field name is malformed");
    assert_rejected(post("A: b\r\n\tContent-Length: 5\r\n", ""), 400, "field name is malformed");
    assert_rejected("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, "field name is malformed");
}

#[test]
fn white_space_before_colon_is_rejected() {
    // RFC 9112, section 5.1.
    assert_rejected(post("Content-Length : 5\r\n", "12345"), 400, "field name is malformed");
    assert_rejected(post("Transfer-Encoding\t: chunked\r\n", ""), 400, "field name is malformed");
}

#[test]
fn invalid_field_name_is_rejected() {
    // RFC 9110, section 5.1.
    for line in ["no colon", ": empty", "a(b: c", "\u{e9}: a", "a\0: b", "a\"b: c", "a/b: c"] {
        assert_rejected(post(&format!("{line}\r\n"), ""), 400, "field name is malformed");
    }
}

#[test]
fn control_characters_in_field_value_are_rejected() {
    // RFC 9110, section 5.5: NUL, and CR or LF that do not end a line.
    for value in ["a\0b", "a\rb", "a\r\r", "\0", "a\x0bb", "a\x7f"] {
        assert_rejected(post(&format!("A: {value}\r\n"), ""), 400, "field value is malformed");
    }
}

#[test]
fn lf_without_cr_is_rejected() {
    // RFC 9112, section 2.2: parsers disagree whether it ends a line.
    for request in [
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\nA: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA:\nB: c\r\n\r\n",
    ] {
        assert_rejected(request, 400, "LF without CR");
    }
}

#[test]
fn cr_without_lf_is_rejected() {
    // RFC 9112, section 2.2.
    assert_rejected("GET / HTTP/1.1\rHost: a\r\n\r\n", 400, "request line");
    assert_rejected("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "CR without LF");
    assert_rejected("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "does not begin with a method");
}

#[test]
fn http_1_1_without_host_is_rejected() {
    // RFC 9112, section 3.2.
    assert_rejected("GET / HTTP/1.1\r\n\r\n", 400, "Host is missing");
    assert_rejected("GET http://a/ HTTP/1.1\r\nA: b\r\n\r\n", 400, "Host is missing");
}

#[test]
fn second_host_is_rejected() {
    // RFC 9112, section 3.2.
    assert_rejected("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "is repeated");
    assert_rejected("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400, "Host is malformed");
    assert_rejected("GET http://b/ HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "Host is malformed");
}

#[test]
fn malformed_host_is_rejected() {
    // RFC 9112, section 3.2.
    for host in ["a/b", "u@a", "a b", "http://a", "a?b", "a#b", "\u{e9}"] {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_rejected(request, 400, "Host is malformed");
    }
}

/// The single-valued fields of MCP.
const MCP_FIELDS: [&str; 5] =
    ["Last-Event-ID", "Mcp-Method", "Mcp-Name", "MCP-Protocol-Version", "Mcp-Session-Id"];

#[test]
fn repeated_single_value_field_is_rejected() {
    // RFC 9110, section 5.3: none of them is a list.
    for field in ["Authorization", "Origin"] {
        let lines = format!("{field}: a\r\n{}: a\r\n", field.to_lowercase());
        assert_rejected(post(&lines, ""), 400, "is repeated");
    }
    // Equal values of fields of MCP count as one.
    for field in MCP_FIELDS {
        for other in ["b", "a, b", ""] {
            let lines = format!("{field}: a\r\n{}: {other}\r\n", field.to_lowercase());
            assert_rejected(post(&lines, ""), 400, &format!("{field} is repeated with different"));
        }
    }
    let lines = "Content-Type: application/json\r\nContent-Type: text/plain\r\n";
    assert_rejected(post(lines, ""), 400, "Content-Type is repeated");
}

#[test]
fn unsupported_http_version_is_rejected() {
    // RFC 9110, section 15.6.6; the third is the HTTP/2 preface (RFC 9113, section 3.4).
    assert_rejected("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, "version");
    assert_rejected("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505, "version");
    assert_rejected("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "version");
}

#[test]
fn malformed_request_line_is_rejected() {
    // RFC 9112, section 3.
    for line in [
        "GET /",
        "GET",
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET / a HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/1",
        "GET / HTTP/11",
        "GET\t/ HTTP/1.1",
        "G(T / HTTP/1.1",
    ] {
        let request = format!("{line}\r\nHost: a\r\n\r\n");
        assert_rejected(request, 400, "request line");
    }
}

#[test]
fn invalid_request_target_is_rejected() {
    // RFC 9112, section 3.2.
    for target in ["mcp", "*", "a:80", "ftp://a/", "?a"] {
        let request = format!("POST {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_rejected(request, 400, "neither a path nor an http URI");
    }
    for target in ["/a#b", "/\u{e9}"] {
        let request = format!("POST {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_rejected(request, 400, "invalid character");
    }
    assert_rejected("POST http:///mcp HTTP/1.1\r\nHost: a\r\n\r\n", 400, "no valid host");
}

#[test]
fn connect_method_is_not_implemented() {
    // RFC 9110, section 9.3.6: all following bytes would be tunneled.
    assert_rejected("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 501, "CONNECT");
}

#[test]
fn invalid_first_byte_is_rejected_immediately() {
    // RFC 9112, section 3.1; the first byte starts a TLS handshake.
    for first in ["\x16", "\0", " ", "{", "\u{e9}", ":"] {
        assert_rejected(first, 400, "does not begin with a method");
    }
}

#[test]
fn unsupported_expect_fails() {
    // RFC 9110, section 10.1.1.
    for expectation in ["200-ok", "100-continue, other", ""] {
        let lines = format!("Expect: {expectation}\r\nContent-Length: 1\r\n");
        assert_rejected(post(&lines, ""), 417, "100-continue");
    }
}

#[test]
fn oversized_head_is_rejected_at_any_split() {
    // RFC 6585, section 5.
    let lines = format!("A: {}\r\n", "a".repeat(300));
    assert_rejected(post(&lines, ""), 431, "head is too large");
    let unfinished = post(&lines, "");
    assert_rejected(&unfinished[..LIMITS.head_bytes_max], 431, "head is too large");
}

#[test]
fn oversized_request_target_is_uri_too_long() {
    // RFC 9110, section 15.5.15.
    let target = "a".repeat(300);
    assert_rejected(format!("GET /{target} HTTP/1.1\r\nHost: a\r\n\r\n"), 414, "target");
    assert_rejected(format!("GET /{target}"), 414, "target");
}

#[test]
fn too_many_header_fields_are_rejected() {
    // RFC 6585, section 5.
    assert_rejected(post(&"A: b\r\n".repeat(6), ""), 431, "too many fields");
}

#[test]
fn oversized_content_length_is_rejected_by_head() {
    // RFC 9110, section 15.5.14.
    for length in ["101", "18446744073709551616", "99999999999999999999999999"] {
        let lines = format!("Content-Length: {length}\r\n");
        assert_rejected(post(&lines, ""), 413, "body is too large");
    }
}

#[test]
fn oversized_chunk_is_rejected_before_its_data() {
    // RFC 9112, section 7.1: sizes must not overflow.
    assert_rejected(chunked("65\r\n"), 413, "body is too large");
    assert_rejected(chunked("ffffffffffffffff\r\n"), 413, "body is too large");
    let body = format!("60\r\n{}\r\n5\r\n", "a".repeat(0x60));
    assert_rejected(chunked(&body), 413, "body is too large");
    assert_rejected(chunked("00000000000000001\r\n"), 400, "too many digits");
}

#[test]
fn malformed_chunks_are_rejected() {
    // RFC 9112, section 7.1.
    for body in [
        "\r\n",
        "x\r\n",
        "-1\r\n",
        "0x1\r\na\r\n",
        ";a\r\n",
        " 1\r\na\r\n",
        "1 \r\na\r\n",
        "1\na\r\n",
        "1\r\na\n",
        "1\r\nab\r\n",
        "1\r\na0\r\n\r\n",
        "1\r\r\n",
        "\n",
    ] {
        assert_rejected(chunked(body), 400, "malformed chunked body");
    }
}

#[test]
fn malformed_chunk_extension_is_rejected() {
    // RFC 9112, section 7.1.1.
    for body in ["1;a\nb\r\n", "1;a\rb\r\n", "1;\0\r\n", "1;a\n"] {
        assert_rejected(chunked(body), 400, "malformed chunked body");
    }
    let body = format!("1;{}\r\na\r\n", "a".repeat(5_000));
    assert_rejected(chunked(&body), 400, "too many chunk extensions");
}

#[test]
fn malformed_or_oversized_trailers_are_rejected() {
    // RFC 9112, section 7.1.2.
    for trailer in ["\n", "a\r\n", " a: b\r\n", ": b\r\n", "a : b\r\n", "a: b\n", "a: \0\r\n"] {
        let body = format!("0\r\n{trailer}\r\n");
        assert_rejected(chunked(&body), 400, "malformed chunked body");
    }
    let body = format!("0\r\n{}", "a: b\r\n".repeat(100));
    assert_rejected(chunked(&body), 431, "trailer fields are too large");
}

#[test]
fn too_many_empty_lines_are_rejected() {
    // RFC 9112, section 2.2: at least one is ignored.
    assert_rejected("\r\n".repeat(9), 400, "too many empty lines");
}
