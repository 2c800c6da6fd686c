//! What is no request, or could be read as two: each refusal with the section that it comes from.
//!
//! Every stream is also fed byte by byte, and behind a request that is taken.

use corelane::transport::http::fuzz::{self, Said};
use corelane::transport::http::limits::Limits;

const LIMITS: Limits = Limits { head_bytes_max: 300, fields_max: 6, body_bytes_max: 100 };

/// Asserts that `stream` is answered with `code` because of `reason`, and with nothing else.
fn assert_refused(stream: impl AsRef<[u8]>, code: u16, reason: &str) {
    let stream = stream.as_ref();
    let shown = stream.escape_ascii();
    let said = fuzz::stream(stream, &[], &LIMITS);
    let [Said::Refused(refusal)] = &said[..] else { panic!("{shown}: {said:?}") };
    assert_eq!(refusal.status.code(), code, "{shown}: {}", refusal.reason);
    assert!(refusal.reason.contains(reason), "{shown}: {}", refusal.reason);
    let behind = [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", stream].concat();
    let said = fuzz::stream(&behind, &[], &LIMITS);
    let [Said::Request(..), Said::Refused(second)] = &said[..] else { panic!("{shown}: {said:?}") };
    assert_eq!(second, refusal, "{shown}");
}

/// A POST whose head has these lines besides the host, and what follows it.
fn post(lines: &str, body: &str) -> String {
    format!("POST /mcp HTTP/1.1\r\nHost: a\r\n{lines}\r\n{body}")
}

/// A POST with this body in chunks.
fn chunked(body: &str) -> String {
    post("Transfer-Encoding: chunked\r\n", body)
}

#[test]
fn a_length_and_chunks_together_are_refused() {
    // RFC 9112, section 6.1: the request that smuggles another one behind it.
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "transfer-encoding: CHUNKED\r\ncontent-length: 0\r\n",
    ] {
        assert_refused(post(lines, "0\r\n\r\n"), 400, "has a length and is chunked");
    }
}

#[test]
fn two_lengths_are_refused_whether_they_differ_or_not() {
    // RFC 9112, section 6.3, item 5.
    for (one, other) in [("5", "6"), ("5", "5"), ("0", "00")] {
        let lines = format!("Content-Length: {one}\r\nContent-Length: {other}\r\n");
        assert_refused(post(&lines, "12345"), 400, "given twice");
    }
}

#[test]
fn a_length_that_is_not_plain_digits_is_refused() {
    // RFC 9112, section 6.3, item 5; RFC 9110, section 8.6.
    for length in ["", "+5", "-5", "5,5", "5, 5", "0x5", "5.0", "5 5", "five", "5;", "\u{665}"] {
        let lines = format!("Content-Length: {length}\r\n");
        assert_refused(post(&lines, "12345"), 400, "is not a number");
    }
}

#[test]
fn transfer_codings_whose_end_is_not_certain_are_refused() {
    // RFC 9112, sections 6.1 and 6.3, item 4: chunked is last, and stands once.
    for coding in ["chunked, gzip", "chunked, chunked", "", ",", "chunked,", ", chunked"] {
        let lines = format!("Transfer-Encoding: {coding}\r\n");
        assert_refused(post(&lines, "0\r\n\r\n"), 400, "no certain end");
    }
    let lines = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n";
    assert_refused(post(lines, "0\r\n\r\n"), 400, "chunked twice");
}

#[test]
fn unknown_transfer_codings_are_not_implemented() {
    // RFC 9112, section 6.1, last paragraph.
    for coding in ["gzip", "gzip, chunked", "identity", "xchunked", "chunked;a=b", "\"chunked\""] {
        let lines = format!("Transfer-Encoding: {coding}\r\n");
        assert_refused(post(&lines, "0\r\n\r\n"), 501, "only transfer coding");
    }
}

#[test]
fn transfer_codings_in_a_request_of_1_0_are_refused() {
    // RFC 9112, section 6.1: whoever forwarded it may have cut it elsewhere.
    let request = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_refused(request, 400, "HTTP/1.0 knows no transfer codings");
}

#[test]
fn a_folded_line_is_refused() {
    // RFC 9112, section 5.2.
    assert_refused(post("A: b\r\n c\r\n", ""), 400, "name of a field");
    assert_refused(post("A: b\r\n\tContent-Length: 5\r\n", ""), 400, "name of a field");
    assert_refused("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, "name of a field");
}

#[test]
fn white_space_before_a_colon_is_refused() {
    // RFC 9112, section 5.1.
    assert_refused(post("Content-Length : 5\r\n", "12345"), 400, "name of a field");
    assert_refused(post("Transfer-Encoding\t: chunked\r\n", ""), 400, "name of a field");
}

#[test]
fn names_that_are_no_tokens_are_refused() {
    // RFC 9110, section 5.1.
    for line in ["no colon", ": empty", "a(b: c", "\u{e9}: a", "a\0: b", "a\"b: c", "a/b: c"] {
        assert_refused(post(&format!("{line}\r\n"), ""), 400, "name of a field");
    }
}

#[test]
fn control_characters_in_a_value_are_refused() {
    // RFC 9110, section 5.5: NUL, and a carriage return or line feed that ends nothing.
    for value in ["a\0b", "a\rb", "a\r\r", "\0", "a\x0bb", "a\x7f"] {
        assert_refused(post(&format!("A: {value}\r\n"), ""), 400, "value of a field");
    }
}

#[test]
fn a_line_feed_alone_ends_no_line() {
    // RFC 9112, section 2.2: what others do not take for the end of a line is not one here.
    for request in [
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\nA: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA:\nB: c\r\n\r\n",
    ] {
        assert_refused(request, 400, "line feed alone");
    }
}

#[test]
fn a_carriage_return_alone_ends_no_line() {
    // RFC 9112, section 2.2.
    assert_refused("GET / HTTP/1.1\rHost: a\r\n\r\n", 400, "request line");
    assert_refused("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "carriage return stands alone");
    assert_refused("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "does not begin with a method");
}

#[test]
fn a_request_of_1_1_without_a_host_is_refused() {
    // RFC 9112, section 3.2.
    assert_refused("GET / HTTP/1.1\r\n\r\n", 400, "host is missing");
    assert_refused("GET http://a/ HTTP/1.1\r\nA: b\r\n\r\n", 400, "host is missing");
}

#[test]
fn a_second_host_is_refused() {
    // RFC 9112, section 3.2.
    assert_refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "stands twice");
    assert_refused("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400, "host is malformed");
    assert_refused("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "different hosts");
}

#[test]
fn a_host_that_is_none_is_refused() {
    // RFC 9112, section 3.2.
    for host in ["a/b", "u@a", "a b", "http://a", "a?b", "a#b", "\u{e9}"] {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_refused(request, 400, "host is malformed");
    }
}

#[test]
fn a_field_of_mcp_that_stands_twice_is_refused() {
    // RFC 9110, section 5.3: a list is not what any of them is.
    for field in ["Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Origin"] {
        let lines = format!("{field}: a\r\n{}: a\r\n", field.to_lowercase());
        assert_refused(post(&lines, ""), 400, "stands twice");
    }
    let lines = "Content-Type: application/json\r\nContent-Type: text/plain\r\n";
    assert_refused(post(lines, ""), 400, "type of the body is given twice");
}

#[test]
fn versions_other_than_1_0_and_1_1_are_not_spoken() {
    // RFC 9110, section 15.6.6; the third is how HTTP/2 begins (RFC 9113, section 3.4).
    assert_refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, "version");
    assert_refused("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505, "version");
    assert_refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "version");
}

#[test]
fn a_malformed_request_line_is_refused() {
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
        assert_refused(request, 400, "request line");
    }
}

#[test]
fn targets_that_are_no_paths_are_refused() {
    // RFC 9112, section 3.2.
    for target in ["mcp", "*", "a:80", "ftp://a/", "?a"] {
        let request = format!("POST {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_refused(request, 400, "neither a path nor a URI");
    }
    for target in ["/a#b", "/\u{e9}"] {
        let request = format!("POST {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_refused(request, 400, "character that none may have");
    }
    assert_refused("POST http:///mcp HTTP/1.1\r\nHost: a\r\n\r\n", 400, "names no host");
}

#[test]
fn a_tunnel_is_not_implemented() {
    // RFC 9110, section 9.3.6: what follows would be anybody's bytes.
    assert_refused("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 501, "CONNECT");
}

#[test]
fn what_does_not_begin_with_a_method_is_refused_at_its_first_byte() {
    // RFC 9112, section 3.1; the first is how TLS begins.
    for first in ["\x16", "\0", " ", "{", "\u{e9}", ":"] {
        assert_refused(first, 400, "does not begin with a method");
    }
}

#[test]
fn expectations_that_cannot_be_met_fail() {
    // RFC 9110, section 10.1.1.
    for expectation in ["200-ok", "100-continue, other", ""] {
        let lines = format!("Expect: {expectation}\r\nContent-Length: 1\r\n");
        assert_refused(post(&lines, ""), 417, "100-continue");
    }
}

#[test]
fn a_head_that_is_too_long_is_refused_wherever_it_is_cut() {
    // RFC 6585, section 5.
    let lines = format!("A: {}\r\n", "a".repeat(300));
    assert_refused(post(&lines, ""), 431, "head is too large");
    let unfinished = post(&lines, "");
    assert_refused(&unfinished[..LIMITS.head_bytes_max], 431, "head is too large");
}

#[test]
fn a_target_that_fills_the_head_is_refused_as_such() {
    // RFC 9110, section 15.5.15.
    let target = "a".repeat(300);
    assert_refused(format!("GET /{target} HTTP/1.1\r\nHost: a\r\n\r\n"), 414, "target");
    assert_refused(format!("GET /{target}"), 414, "target");
}

#[test]
fn fields_that_are_too_many_are_refused() {
    // RFC 6585, section 5.
    assert_refused(post(&"A: b\r\n".repeat(6), ""), 431, "too many fields");
}

#[test]
fn a_body_that_is_too_large_is_refused_by_its_head() {
    // RFC 9110, section 15.5.14.
    for length in ["101", "18446744073709551616", "99999999999999999999999999"] {
        let lines = format!("Content-Length: {length}\r\n");
        assert_refused(post(&lines, ""), 413, "body is too large");
    }
}

#[test]
fn a_chunk_that_would_pass_the_limit_is_refused_before_it_comes() {
    // RFC 9112, section 7.1: no size may overflow.
    assert_refused(chunked("65\r\n"), 413, "body is too large");
    assert_refused(chunked("ffffffffffffffff\r\n"), 413, "body is too large");
    let body = format!("60\r\n{}\r\n5\r\n", "a".repeat(0x60));
    assert_refused(chunked(&body), 413, "body is too large");
    assert_refused(chunked("00000000000000001\r\n"), 400, "too many digits");
}

#[test]
fn malformed_chunks_are_refused() {
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
        assert_refused(chunked(body), 400, "chunks of the body are malformed");
    }
}

#[test]
fn an_extension_that_hides_the_end_of_its_line_is_refused() {
    // RFC 9112, section 7.1.1.
    for body in ["1;a\nb\r\n", "1;a\rb\r\n", "1;\0\r\n", "1;a\n"] {
        assert_refused(chunked(body), 400, "chunks of the body are malformed");
    }
    let body = format!("1;{}\r\na\r\n", "a".repeat(5_000));
    assert_refused(chunked(&body), 400, "too many extensions");
}

#[test]
fn malformed_or_endless_trailers_are_refused() {
    // RFC 9112, section 7.1.2.
    for trailer in ["\n", "a\r\n", " a: b\r\n", ": b\r\n", "a : b\r\n", "a: b\n", "a: \0\r\n"] {
        let body = format!("0\r\n{trailer}\r\n");
        assert_refused(chunked(&body), 400, "chunks of the body are malformed");
    }
    let body = format!("0\r\n{}", "a: b\r\n".repeat(100));
    assert_refused(chunked(&body), 431, "trailers are too large");
}

#[test]
fn endless_empty_lines_before_a_request_are_refused() {
    // RFC 9112, section 2.2: at least one is ignored.
    assert_refused("\r\n".repeat(9), 400, "too many empty lines");
}
