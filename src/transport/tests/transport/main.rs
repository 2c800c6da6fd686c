//! Codecs: NDJSON against a model that splits the whole text, HTTP/1.1 requests and responses,
//! server-sent events and WebSocket. The result must not depend on how the input is split.

#[path = "../../../../fuzz/bodies/frames.rs"]
mod frames_fuzz;
#[path = "../../../../fuzz/bodies/proxies.rs"]
mod proxies_fuzz;
#[path = "../../../../fuzz/bodies/requests.rs"]
mod requests_fuzz;
#[path = "../../../../fuzz/bodies/responses.rs"]
mod responses_fuzz;

mod malformed_requests;
mod requests;
mod splits;

#[cfg(test)]
mod checks;
#[cfg(test)]
mod client_parser;
#[cfg(test)]
mod damaged_addresses;
#[cfg(test)]
mod damaged_responses;
#[cfg(test)]
mod header_consistency;
#[cfg(test)]
mod http_client;
#[cfg(test)]
mod responses;
#[cfg(test)]
mod sse;
#[cfg(test)]
mod websocket;

use corelane_base::random::Random;
use corelane_test_support::alloc_counter::CountingAllocator;
use corelane_transport::ndjson::{LineEvent, LineReader};
use proptest::prelude::*;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A result of reading a stream of lines.
#[derive(Debug, Eq, PartialEq)]
enum LineOutcome {
    Line(Vec<u8>),
    TooLarge,
}

/// Reads `stream` in pieces of the given lengths, then of 4096 bytes.
fn read(stream: &[u8], lengths: &[usize], line_bytes_max: usize) -> Vec<LineOutcome> {
    read_with(LineReader::new(), stream, lengths, line_bytes_max)
}

fn read_with(
    mut reader: LineReader,
    stream: &[u8],
    lengths: &[usize],
    line_bytes_max: usize,
) -> Vec<LineOutcome> {
    let mut outcomes = Vec::new();
    let mut rest = stream;
    let mut lengths = lengths.iter().copied().chain(std::iter::repeat(4096));
    while !rest.is_empty() {
        let length = lengths.next().unwrap_or(1).clamp(1, rest.len());
        let (arrival, later) = rest.split_at(length);
        rest = later;
        let mut from = 0;
        loop {
            match reader.next(arrival, &mut from, line_bytes_max, Vec::new) {
                LineEvent::InPlace { start, end } => {
                    outcomes.push(LineOutcome::Line(arrival[start..end].to_vec()));
                }
                LineEvent::Assembled => {
                    let mut line = reader.take();
                    outcomes.push(LineOutcome::Line(line.text().as_bytes().to_vec()));
                }
                LineEvent::TooLarge => outcomes.push(LineOutcome::TooLarge),
                LineEvent::NeedMore => break,
            }
        }
        assert_eq!(from, length, "input was not consumed");
        assert!(reader.held_bytes() <= line_bytes_max + 1, "more is held than the limit");
    }
    outcomes.extend(reader.finish().map(|line| LineOutcome::Line(line.as_bytes().to_vec())));
    outcomes
}

/// Returns the expected result by splitting the whole stream.
fn model(stream: &[u8], line_bytes_max: usize) -> Vec<LineOutcome> {
    let lines = stream.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| match line.len() {
            length if length > line_bytes_max => LineOutcome::TooLarge,
            _ => LineOutcome::Line(line.to_vec()),
        })
        .collect()
}

/// Random bytes with frequent line terminators.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => any::<u8>(),
        1 => Just(b'\n'),
        1 => Just(b'\r'),
    ];
    prop::collection::vec(byte, 0..300)
}

proptest! {
    #[test]
    fn stdio_split_anywhere_reads_same_lines(
        stream in "[{}\\[\\]\"\\\\x\r\n]{0,200}",
        lengths in prop::collection::vec(1_usize..40, 0..60),
        line_bytes_max in 1_usize..60,
    ) {
        let read = |lengths: &[usize]| {
            let mut reader = LineReader::new();
            reader.end_at_carriage_returns();
            read_with(reader, stream.as_bytes(), lengths, line_bytes_max)
        };
        prop_assert_eq!(read(&lengths), read(&[]));
    }

    #[test]
    fn ndjson_split_anywhere_reads_same_lines(
        stream in streams(),
        lengths in prop::collection::vec(1_usize..40, 0..60),
        line_bytes_max in 1_usize..50,
    ) {
        prop_assert_eq!(read(&stream, &lengths, line_bytes_max), model(&stream, line_bytes_max));
    }
}

/// Checks one seeded stream against the model.
fn fuzz(seed: u64) {
    let mut random = Random::seeded(seed);
    let line_bytes_max = 1 + random.below(200);
    let alphabet: &[u8] =
        if random.chance(1, 2) { b"\n\r{}\"x" } else { b"\nabcdefghijklmnop\0\xff" };
    let length = random.below(5_000);
    let stream: Vec<u8> = (0..length).map(|_| alphabet[random.below(alphabet.len())]).collect();
    let widest = 1 + random.below(300);
    let lengths: Vec<usize> = (0..length).map(|_| 1 + random.below(widest)).collect();
    let read = read(&stream, &lengths, line_bytes_max);
    assert_eq!(read, model(&stream, line_bytes_max), "seed {seed}");
}

#[test]
fn seeded_ndjson_streams_match_the_model() {
    for seed in 0..2_000 {
        fuzz(seed);
    }
}
