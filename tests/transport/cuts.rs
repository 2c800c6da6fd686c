//! Streams of requests cut anywhere: by chance in what they say and in where they are cut.
//!
//! The fuzz body asserts that each reads the same whole and cut. A failure names its seed.

use corelane::base::random::Random;
use corelane::transport::http::fuzz::{self, Said};
use corelane::transport::http::limits::Limits;
use proptest::prelude::*;

use crate::damage::damage;

const LIMITS: Limits = Limits { head_bytes_max: 400, fields_max: 12, body_bytes_max: 60 };

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

/// Pieces that mean something to a reader.
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

/// A stream of some requests, some of them damaged, and where to cut it.
fn draw(random: &mut Random) -> (Vec<u8>, Vec<usize>) {
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
fn seeded_streams_read_the_same_wherever_they_are_cut() {
    let (mut taken, mut refused) = (0, 0);
    for seed in 0..20_000 {
        let (stream, lengths) = draw(&mut Random::seeded(seed));
        let read = std::panic::catch_unwind(|| fuzz::stream(&stream, &lengths, &LIMITS));
        let Ok(said) = read else { panic!("seed {seed}: {}", stream.escape_ascii()) };
        let refusals = said.iter().filter(|said| matches!(said, Said::Refused(_))).count();
        (taken, refused) = (taken + said.len() - refusals, refused + refusals);
    }
    // Both must be reached, or nothing was tried.
    assert!(taken > 20_000 && refused > 2_000, "{taken} taken, {refused} refused");
}

#[test]
fn whole_requests_are_taken_at_every_cut() {
    let stream = REQUESTS.concat();
    for length in 1..stream.len() {
        let said = fuzz::stream(stream.as_bytes(), &[length], &LIMITS);
        assert_eq!(said.len(), REQUESTS.len(), "cut every {length}");
        assert!(said.iter().all(|said| matches!(said, Said::Request(..))), "{length}: {said:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_read_the_same_wherever_they_are_cut(
        stream in prop::collection::vec(any::<u8>(), 0..600),
        lengths in prop::collection::vec(1_usize..50, 0..60),
    ) {
        fuzz::stream(&stream, &lengths, &LIMITS);
    }

    #[test]
    fn pieces_of_requests_in_any_order_read_the_same_wherever_they_are_cut(
        pieces in prop::collection::vec(0..REQUESTS.len() + PIECES.len(), 0..20),
        lengths in prop::collection::vec(1_usize..50, 0..60),
    ) {
        let piece = |index: usize| match REQUESTS.get(index) {
            Some(request) => request.as_bytes(),
            None => PIECES[index - REQUESTS.len()],
        };
        let stream: Vec<u8> = pieces.into_iter().flat_map(piece).copied().collect();
        fuzz::stream(&stream, &lengths, &LIMITS);
    }

    #[test]
    fn any_body_arrives_as_it_was_sent(
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
        let said = fuzz::stream(&stream, &lengths, &LIMITS);
        prop_assert_eq!(said.len(), 2);
        for said in said {
            prop_assert!(matches!(&said, Said::Request(_, _, read) if *read == body), "{:?}", said);
        }
    }
}
