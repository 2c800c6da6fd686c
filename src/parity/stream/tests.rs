//! Tests of streams.

use super::*;
use proptest::prelude::*;

const LIMITS: WindowLimits =
    WindowLimits { chunks_max: 4, bytes_max: 1_000, age_max: Duration::from_mins(1) };

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN.after(Duration::from_secs(seconds))
}

fn write_partials(stream: &mut OutgoingStream, count: u64, now: Instant) {
    for _ in 0..count {
        let mut out = Vec::new();
        stream.write_chunk(&mut out, ChunkType::Partial, b"1", Some(&LIMITS), now);
    }
}

fn resumed(stream: &mut OutgoingStream, last: u64, now: Instant) -> Result<Vec<u64>, ResumeError> {
    let texts = stream.resume(last, &LIMITS, now)?;
    Ok(texts
        .map(|text| {
            let json: serde_json::Value = serde_json::from_slice(text).unwrap();
            json["seq"].as_u64().unwrap()
        })
        .collect())
}

#[test]
fn stream_resumes_after_acknowledged_chunk() {
    let mut streams = OutgoingStreams::default();
    let stream = streams.open(Id::Signed(1), 2).unwrap();
    write_partials(stream, 6, at(0));
    assert_eq!(resumed(stream, 2, at(1)), Ok(vec![3, 4, 5, 6]));
    assert_eq!(resumed(stream, 6, at(1)), Ok(vec![]));
    assert_eq!(resumed(stream, 1, at(1)), Err(ResumeError::StaleWindow));
    assert_eq!(resumed(stream, 7, at(1)), Err(ResumeError::FutureSeq));
    assert_eq!(resumed(stream, 2, at(61)), Err(ResumeError::StaleWindow), "too old");
}

#[test]
fn window_is_bounded_in_bytes() {
    let mut streams = OutgoingStreams::default();
    let stream = streams.open(Id::Signed(1), 2).unwrap();
    let data = format!("\"{}\"", "x".repeat(400));
    for _ in 0..10 {
        let mut out = Vec::new();
        stream.write_chunk(&mut out, ChunkType::Partial, data.as_bytes(), Some(&LIMITS), at(0));
    }
    assert!(stream.window_bytes() <= LIMITS.bytes_max);
    assert_eq!(resumed(stream, 8, at(0)), Ok(vec![9, 10]));
}

#[test]
fn nothing_follows_eos() {
    let mut streams = OutgoingStreams::default();
    let stream = streams.open(Id::Text("q"), 2).unwrap();
    let mut out = Vec::new();
    stream.write_eos(&mut out, "completed", None, at(0));
    let length = out.len();
    stream.write_chunk(&mut out, ChunkType::Log, b"1", None, at(0));
    stream.write_eos(&mut out, "completed", None, at(0));
    assert_eq!(out.len(), length);
    assert_eq!(stream.next_seq(), 2);
    streams.keep_ended(None, at(0));
    assert_eq!(streams.iter().count(), 0);
}

#[test]
fn open_streams_are_limited_and_ended_kept() {
    let mut streams = OutgoingStreams::default();
    let numbers: Vec<u32> =
        (0..2).map(|id| streams.open(Id::Signed(id), 2).unwrap().number()).collect();
    assert_eq!(numbers, [1, 2]);
    assert!(streams.open(Id::Signed(2), 2).is_err());
    assert_eq!(streams.number_of(Id::Signed(1)), Some(2));
    for number in numbers {
        let stream = streams.get_mut(number).unwrap();
        stream.write_eos(&mut Vec::new(), "completed", Some(&LIMITS), at(0));
    }
    streams.keep_ended(Some(&LIMITS), at(0));
    let kept: Vec<&str> = streams.iter().map(OutgoingStream::id).collect();
    assert_eq!(kept, ["s1", "s2"]);
    assert_eq!(streams.number_of(Id::Signed(1)), None, "ended");
    streams.keep_ended(Some(&LIMITS), at(61));
    assert_eq!((streams.iter().count(), streams.window_bytes()), (0, 0));
}

#[test]
fn ended_streams_are_kept_within_their_bytes() {
    let limits = WindowLimits { bytes_max: 64 * 1024, ..LIMITS };
    let mut streams = OutgoingStreams::default();
    let mut end_one = |id: i64, limits: &WindowLimits| {
        let stream = streams.open(Id::Signed(id), 1).unwrap();
        write_partials(stream, 1, at(0));
        stream.write_eos(&mut Vec::new(), "completed", Some(limits), at(0));
        streams.keep_ended(Some(limits), at(0));
        (streams.iter().count(), streams.window_bytes())
    };
    for count in 1..50 {
        assert_eq!(end_one(count, &limits).0, usize::try_from(count).unwrap());
    }
    let (kept, bytes) = (50..200).map(|id| end_one(id, &limits)).last().unwrap();
    assert!((50..64).contains(&kept) && bytes + kept * ENDED_STREAM_BYTES <= limits.bytes_max);
    // The last ones stay whatever their bytes.
    assert_eq!(end_one(200, &LIMITS).0, ENDED_KEPT_MIN);
}

#[test]
fn incoming_chunks_are_deduplicated() {
    let mut streams = IncomingStreams::default();
    assert_eq!(streams.receive("s1", 1, ChunkType::Log), Received::UnknownStream);
    streams.open("s1");
    assert_eq!(streams.receive("s1", 1, ChunkType::Log), Received::Next);
    assert_eq!(streams.receive("s1", 1, ChunkType::Log), Received::Duplicate);
    assert_eq!(streams.receive("s1", 3, ChunkType::Log), Received::Gap { expected: 2 });
    assert_eq!(streams.last_ack_seq(), [("s1".to_owned(), 1)]);
    assert_eq!(streams.receive("s1", 2, ChunkType::Eos), Received::Next);
    assert_eq!(streams.receive("s1", 3, ChunkType::Log), Received::AfterEnd);
    assert!(streams.last_ack_seq().is_empty());
}

proptest! {
    /// A client that loses its connection at any time and resumes sees every chunk once, in order.
    #[test]
    fn resumed_stream_loses_and_doubles_nothing(
        steps in proptest::collection::vec((1..4_u64, 0..4_u64), 1..30),
    ) {
        let mut streams = OutgoingStreams::default();
        let mut incoming = IncomingStreams::default();
        let stream = streams.open(Id::Signed(1), 1).unwrap();
        incoming.open("s1");
        let mut seen = Vec::new();
        for (written, repeated) in steps {
            write_partials(stream, written, at(0));
            let acknowledged = incoming.last_ack_seq()[0].1;
            // Some chunks were received before, and are sent again.
            let from = acknowledged.saturating_sub(repeated);
            let resumed = resumed(stream, from, at(0)).or_else(|_| {
                resumed(stream, acknowledged, at(0))
            });
            for seq in resumed.unwrap() {
                match incoming.receive("s1", seq, ChunkType::Partial) {
                    Received::Next => seen.push(seq),
                    other => prop_assert_eq!(other, Received::Duplicate),
                }
            }
        }
        let expected: Vec<u64> = (1..stream.next_seq()).collect();
        prop_assert_eq!(seen, expected);
    }
}
