//! Any stream of frames, cut anywhere, reads as the model says.

use corelane::base::random::Random;
use corelane::transport::websocket::fuzz;
use corelane::transport::websocket::limits::FrameLimits;
use proptest::prelude::*;

use super::{
    BINARY, CLOSE, COMPRESSED, CONTINUATION, FINAL, Form, Frame, PING, PONG, TEXT, frame, model,
};

/// Frames of a client that keeps the rules more often than not.
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
        20 => Just(Form::Shortest),
        1 => Just(Form::TwoBytes),
        1 => Just(Form::EightBytes),
    ];
    let key = prop_oneof![20 => any::<[u8; 4]>().prop_map(Some), 1 => Just(None)];
    (first, payload, form, key).prop_map(|(first, payload, form, key)| Frame {
        first,
        form,
        key,
        payload,
    })
}

/// Frames as they go over the wire.
fn written(frames: &[Frame]) -> Vec<u8> {
    let mut stream = Vec::new();
    for frame in frames {
        frame.write(&mut stream);
    }
    stream
}

proptest! {
    #[test]
    fn any_cut_of_any_stream_reads_as_the_model_says(
        frames in prop::collection::vec(frames(), 0..12),
        lengths in prop::collection::vec(1_usize..40, 0..60),
        missing in 0_usize..8,
        message_bytes_max in 10_usize..400,
        is_binary_allowed: bool,
        is_deflating: bool,
    ) {
        let limits = FrameLimits { message_bytes_max, is_binary_allowed };
        let stream = written(&frames);
        let stream = &stream[..stream.len().saturating_sub(missing)];
        let said = fuzz::stream(stream, &lengths, &limits, is_deflating);
        prop_assert_eq!(said, model::read(stream, &limits, is_deflating));
    }
}

/// A dialogue that keeps every rule.
fn dialogue() -> Vec<u8> {
    [
        frame(FINAL | TEXT, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
        frame(FINAL | PING, "are you there?"),
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
fn a_dialogue_reads_the_same_wherever_it_is_cut_in_two() {
    let stream = dialogue();
    let expected = model::read(&stream, &FrameLimits::default(), false);
    assert_eq!(expected.len(), 7);
    for cut in 1..stream.len() {
        let read = fuzz::stream(&stream, &[cut, stream.len()], &FrameLimits::default(), false);
        assert_eq!(read, expected, "cut at {cut}");
    }
}

/// One seeded stream: a dialogue with a few bytes changed, dropped or doubled.
fn mutate(seed: u64) {
    let mut random = Random::seeded(seed);
    let mut stream = dialogue();
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
    let read = fuzz::stream(&stream, &lengths, &limits, is_deflating);
    assert_eq!(read, model::read(&stream, &limits, is_deflating), "seed {seed}");
}

#[test]
fn seeded_mutations_read_as_the_model_says() {
    for seed in 0..4_000 {
        mutate(seed);
    }
}
