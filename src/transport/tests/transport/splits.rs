//! Streams of random requests, split at random positions.
//!
//! The fuzz target body asserts that the result does not depend on the split. A failure names its
//! seed.

use crate::requests_fuzz::{RequestOutcome, check_stream};
use corelane_base::random::Random;
use corelane_transport::http::head::RequestLimits;
use proptest::prelude::*;

use corelane_test_support::damage::damage;

const LIMITS: RequestLimits =
    RequestLimits { head_bytes_max: 400, fields_max: 12, body_bytes_max: 60 };

const REQUESTS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\nDELETE /mcp HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close, te\r\n\r\n",
    "GET http://a/b?c HTTP/1.1\r\nHost: A\r\nAccept: */*;q=0.5, text/html;a=\",\"\r\n\r\n",
    concat!(
        "POST /mcp HTTP/1.1\r\nHost: a\r\nAccept: application/json, text/event-stream\r\n",
        "Content-Type: application/json\r\nMcp-Param-A: b\r\nMcp-Method: ping\r\n",
        "Content-Length: 13\r\n\r\n{\"a\":\r\n\r\n\"b\"}",
    ),
    concat!(
        "POST /mcp HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\n{\"a\":\r\n02\r\n1}\r\n0\r\nT: r\r\n\r\n",
    ),
];

/// Byte sequences with a meaning to the parser.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"0\r\n\r\n",
    b"fffffffffffffff\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Host: b\r\n",
    b"Expect: x\r\n",
    b"HTTP/1.0",
    b"HTTP/2.0",
    b"Mcp-Param-",
    b"\xff",
];

/// Draws a stream of requests, some damaged, and the lengths of its pieces.
fn draw_stream(random: &mut Random) -> (Vec<u8>, Vec<usize>) {
    let mut stream = Vec::new();
    for _ in 0..=random.below(6) {
        let mut request = REQUESTS[random.below(REQUESTS.len())].as_bytes().to_vec();
        if random.chance(1, 3) {
            damage(random, &mut request, PIECES);
        }
        stream.extend(request);
    }
    let widest = 1 + random.below(200);
    let lengths = (0..stream.len()).map(|_| 1 + random.below(widest)).collect();
    (stream, lengths)
}

#[test]
fn seeded_request_streams_parse_independent_of_split() {
    let (mut accepted, mut rejected) = (0, 0);
    for seed in 0..20_000 {
        let (stream, lengths) = draw_stream(&mut Random::seeded(seed));
        let read = std::panic::catch_unwind(|| check_stream(&stream, &lengths, &LIMITS));
        let Ok(outcomes) = read else { panic!("seed {seed}: {}", stream.escape_ascii()) };
        let errors = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, RequestOutcome::Rejected(_, _)))
            .count();
        (accepted, rejected) = (accepted + outcomes.len() - errors, rejected + errors);
    }
    // Guards against a generator that produces only one of them.
    assert!(accepted > 20_000 && rejected > 2_000, "{accepted} accepted, {rejected} rejected");
}

#[test]
fn valid_requests_are_accepted_at_every_split() {
    let stream = REQUESTS.concat();
    for length in 1..stream.len() {
        let outcomes = check_stream(stream.as_bytes(), &[length], &LIMITS);
        assert_eq!(outcomes.len(), REQUESTS.len(), "pieces of {length}");
        let is_request = |outcome: &RequestOutcome| matches!(outcome, RequestOutcome::Request(..));
        assert!(outcomes.iter().all(is_request), "{length}: {outcomes:?}");
    }
}

proptest! {
    #[test]
    fn random_bytes_parse_independent_of_split(
        stream in prop::collection::vec(any::<u8>(), 0..600),
        lengths in prop::collection::vec(1_usize..50, 0..60),
    ) {
        check_stream(&stream, &lengths, &LIMITS);
    }

    #[test]
    fn random_request_pieces_parse_independent_of_split(
        pieces in prop::collection::vec(0..REQUESTS.len() + PIECES.len(), 0..20),
        lengths in prop::collection::vec(1_usize..50, 0..60),
    ) {
        let piece = |index: usize| match REQUESTS.get(index) {
            Some(request) => request.as_bytes(),
            None => PIECES[index - REQUESTS.len()],
        };
        let stream: Vec<u8> = pieces.into_iter().flat_map(piece).copied().collect();
        check_stream(&stream, &lengths, &LIMITS);
    }

    #[test]
    fn any_request_body_arrives_unchanged(
        body in prop::collection::vec(any::<u8>(), 0..60),
        chunk in 1_usize..20,
        lengths in prop::collection::vec(1_usize..50, 0..60),
    ) {
        let start = "POST / HTTP/1.1\r\nHost: a\r\n";
        let mut stream = format!("{start}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
        stream.extend(&body);
        stream.extend(format!("{start}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
        for data in body.chunks(chunk) {
            stream.extend(format!("{:x}\r\n", data.len()).as_bytes());
            stream.extend(data);
            stream.extend(b"\r\n");
        }
        stream.extend(b"0\r\n\r\n");
        let outcomes = check_stream(&stream, &lengths, &LIMITS);
        prop_assert_eq!(outcomes.len(), 2);
        for outcome in outcomes {
            let is_same = matches!(&outcome, RequestOutcome::Request(_, _, read) if *read == body);
            prop_assert!(is_same, "{:?}", outcome);
        }
    }
}
