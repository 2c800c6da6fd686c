//! Random streams of frames, split at random positions, against the model.

use crate::frames_fuzz::check_stream;
use corelane_base::random::Random;
use corelane_transport::websocket::limits::FrameLimits;
use proptest::prelude::*;

use super::{
    BINARY, CLOSE, COMPRESSED, CONTINUATION, FINAL, Frame, LengthEncoding, PING, PONG, TEXT, frame,
    model,
};

/// A client frame that is valid more often than not.
fn frames() -> impl Strategy<Value = Frame> {
    let first = prop_oneof![
        6 => Just(FINAL | TEXT),
        4 => Just(TEXT),
        4 => Just(CONTINUATION),
        4 => Just(FINAL | CONTINUATION),
        1 => Just(FINAL | BINARY),
        2 => Just(FINAL | PING),
        2 => Just(FINAL | PONG),
        1 => Just(FINAL | CLOSE),
        1 => Just(FINAL | COMPRESSED | TEXT),
        1 => any::<u8>(),
    ];
    let payload = prop_oneof![
        6 => "[a-zé€😀\n]{0,12}".prop_map(String::into_bytes),
        1 => "[a-z€]{100,300}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..6),
        1 => (990_u16..1020).prop_map(|code| code.to_be_bytes().to_vec()),
    ];
    let form = prop_oneof![
        20 => Just(LengthEncoding::Minimal),
        1 => Just(LengthEncoding::TwoBytes),
        1 => Just(LengthEncoding::EightBytes),
    ];
    let key = prop_oneof![20 => any::<[u8; 4]>().prop_map(Some), 1 => Just(None)];
    (first, payload, form, key).prop_map(|(first, payload, form, key)| Frame {
        first,
        length_encoding: form,
        key,
        payload,
    })
}

/// Encodes frames.
fn encode_frames(frames: &[Frame]) -> Vec<u8> {
    let mut stream = Vec::new();
    for frame in frames {
        frame.write(&mut stream);
    }
    stream
}

proptest! {
    #[test]
    fn frames_split_anywhere_match_the_model(
        frames in prop::collection::vec(frames(), 0..12),
        lengths in prop::collection::vec(1_usize..40, 0..60),
        missing in 0_usize..8,
        message_bytes_max in 10_usize..400,
        is_binary_allowed: bool,
        is_deflating: bool,
    ) {
        let limits = FrameLimits { message_bytes_max, is_binary_allowed };
        let stream = encode_frames(&frames);
        let stream = &stream[..stream.len().saturating_sub(missing)];
        let outcomes = check_stream(stream, &lengths, &limits, is_deflating);
        prop_assert_eq!(outcomes, model::read(stream, &limits, is_deflating));
    }
}

/// A valid stream of frames.
fn valid_frames() -> Vec<u8> {
    [
        frame(FINAL | TEXT, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
        frame(FINAL | PING, "ping payload"),
        frame(TEXT, "{\"a\":\"κό"),
        frame(FINAL | PONG, ""),
        frame(CONTINUATION, "σμε €"),
        frame(CONTINUATION, ""),
        frame(FINAL | CONTINUATION, " 😀\"}"),
        frame(FINAL | TEXT, "m".repeat(130)),
        frame(FINAL | TEXT, ""),
        frame(FINAL | CLOSE, [3, 0xe8, b'o', b'k']),
    ]
    .concat()
}

#[test]
fn valid_frames_parse_same_at_every_split() {
    let stream = valid_frames();
    let expected = model::read(&stream, &FrameLimits::default(), false);
    assert_eq!(expected.len(), 7);
    for cut in 1..stream.len() {
        let read = check_stream(&stream, &[cut, stream.len()], &FrameLimits::default(), false);
        assert_eq!(read, expected, "split at {cut}");
    }
}

/// Checks one seeded stream with a few bytes changed, dropped or repeated.
fn check_mutated_stream(seed: u64) {
    let mut random = Random::seeded(seed);
    let mut stream = valid_frames();
    for _ in 0..random.below(4) {
        let at = random.below(stream.len());
        match random.below(4) {
            0 => stream[at] = u8::try_from(random.below(256)).unwrap(),
            1 => stream[at] ^= 1 << random.below(8),
            2 => drop(stream.remove(at)),
            _ => stream.insert(at, stream[at]),
        }
    }
    let limits = FrameLimits {
        message_bytes_max: [20, 200, 100_000][random.below(3)],
        is_binary_allowed: random.chance(1, 2),
    };
    let is_deflating = random.chance(1, 3);
    let widest = 1 + random.below(60);
    let lengths: Vec<usize> = (0..stream.len()).map(|_| 1 + random.below(widest)).collect();
    let read = check_stream(&stream, &lengths, &limits, is_deflating);
    assert_eq!(read, model::read(&stream, &limits, is_deflating), "seed {seed}");
}

#[test]
fn seeded_frame_mutations_match_the_model() {
    for seed in 0..4_000 {
        check_mutated_stream(seed);
    }
}
