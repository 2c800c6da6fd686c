//! The framing of lines from the outside: whatever the bytes and however they are cut, the same
//! lines come out. The model is three lines of code that no stream could use: split the whole text.
//! Beside it: requests of HTTP/1.1, those that are taken, those that are refused, however cut.

#[path = "../alloc/counting.rs"]
mod counting;

#[path = "../support/damage.rs"]
mod damage;

mod cuts;
mod refusals;
mod requests;

#[cfg(test)]
mod answers;
#[cfg(test)]
mod events;
#[cfg(test)]
mod ladder;
#[cfg(test)]
mod mirror;
#[cfg(test)]
mod websocket;
#[cfg(test)]
mod wire;

use corelane::base::random::Random;
use corelane::transport::ndjson::{Line, LineReader, PADDING};
use proptest::prelude::*;

/// What a reader said about a stream.
#[derive(Debug, Eq, PartialEq)]
enum Said {
    Line(Vec<u8>),
    TooLarge,
}

/// Feeds `stream` in pieces of the given lengths, the last one again and again.
fn read(stream: &[u8], lengths: &[usize], line_bytes_max: usize) -> Vec<Said> {
    let mut reader = LineReader::new();
    let mut said = Vec::new();
    let mut rest = stream;
    let mut lengths = lengths.iter().copied().chain(std::iter::repeat(4096));
    while !rest.is_empty() {
        let length = lengths.next().unwrap_or(1).clamp(1, rest.len());
        let (arrival, later) = rest.split_at(length);
        rest = later;
        let mut from = 0;
        loop {
            match reader.next(arrival, &mut from, line_bytes_max, Vec::new) {
                Line::Inside { start, end } => said.push(Said::Line(arrival[start..end].to_vec())),
                Line::Assembled => {
                    let (line, length) = reader.take();
                    assert!(line.len() >= length + PADDING);
                    said.push(Said::Line(line[..length].to_vec()));
                }
                Line::TooLarge => said.push(Said::TooLarge),
                Line::NeedMore => break,
            }
        }
        assert_eq!(from, length, "an arrival was not used up");
        assert!(reader.held_bytes() <= line_bytes_max, "more was held than a line may have");
    }
    said.extend(reader.finish().map(|(line, length)| Said::Line(line[..length].to_vec())));
    said
}

/// The same by looking at the whole stream at once.
fn model(stream: &[u8], line_bytes_max: usize) -> Vec<Said> {
    let lines = stream.split(|byte| matches!(byte, b'\n' | b'\r'));
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| match line.len() {
            length if length > line_bytes_max => Said::TooLarge,
            _ => Said::Line(line.to_vec()),
        })
        .collect()
}

/// Bytes in which terminators are common.
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
    fn any_cut_of_any_stream_reads_the_same_lines(
        stream in streams(),
        lengths in prop::collection::vec(1_usize..40, 0..60),
        line_bytes_max in 1_usize..50,
    ) {
        prop_assert_eq!(read(&stream, &lengths, line_bytes_max), model(&stream, line_bytes_max));
    }
}

/// One seeded stream, cut by the same seed.
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
fn seeded_streams_read_the_same_lines_as_the_model() {
    for seed in 0..2_000 {
        fuzz(seed);
    }
}
