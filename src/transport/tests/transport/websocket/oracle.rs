//! Comparison with tungstenite: both parse the same streams alike, and it reads the frames written
//! here.

use crate::frames_fuzz::{FrameOutcome, check_stream};
use corelane_base::random::Random;
use corelane_transport::websocket::limits::{CloseCode, FrameLimits, ProtocolError};
use corelane_transport::websocket::writer;
use tungstenite::error::{Error, ProtocolError as TungsteniteProtocolError};
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket};

use super::{BINARY, CLOSE, CONTINUATION, FINAL, Frame, Memory, PING, PONG, TEXT};

/// A result of either implementation.
#[derive(Debug, Eq, PartialEq)]
enum ParsedFrame {
    Message(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>),
    /// A protocol error, with its close code.
    Invalid(u16),
}

fn parse_with_tungstenite(stream: &[u8], role: Role, limits: &FrameLimits) -> Vec<ParsedFrame> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(limits.message_bytes_max))
        .max_frame_size(Some(limits.message_bytes_max));
    let mut socket = WebSocket::from_raw_socket(Memory(stream), role, Some(config));
    let mut outcomes = Vec::new();
    loop {
        outcomes.push(match socket.read() {
            Ok(Message::Text(text)) => ParsedFrame::Message(text.as_bytes().to_vec()),
            Ok(Message::Binary(bytes)) => ParsedFrame::Message(bytes.to_vec()),
            Ok(Message::Ping(payload)) => ParsedFrame::Ping(payload.to_vec()),
            Ok(Message::Pong(payload)) => ParsedFrame::Pong(payload.to_vec()),
            Ok(Message::Close(close)) => {
                let close = close.map(|close| (u16::from(close.code), close.reason));
                outcomes.push(match close {
                    // tungstenite's result for a close code that must not be sent.
                    Some((1002, reason)) if reason == "Protocol violation" => {
                        ParsedFrame::Invalid(1002)
                    }
                    close => ParsedFrame::Close(close.map(|(code, _)| code)),
                });
                return outcomes;
            }
            Ok(Message::Frame(frame)) => panic!("{frame:?}"),
            Err(Error::Protocol(TungsteniteProtocolError::ResetWithoutClosingHandshake)) => {
                return outcomes;
            }
            Err(Error::Protocol(_)) => ParsedFrame::Invalid(CloseCode::PROTOCOL.as_u16()),
            Err(Error::Utf8(_)) => ParsedFrame::Invalid(CloseCode::INVALID.as_u16()),
            Err(Error::Capacity(_)) => ParsedFrame::Invalid(CloseCode::TOO_BIG.as_u16()),
            Err(error) => panic!("{error}"),
        });
        if matches!(outcomes.last(), Some(ParsedFrame::Invalid(_))) {
            return outcomes;
        }
    }
}

fn parse_with_reader(stream: &[u8], lengths: &[usize], limits: &FrameLimits) -> Vec<ParsedFrame> {
    let outcomes = check_stream(stream, lengths, limits, false).into_iter();
    outcomes
        .map(|outcome| match outcome {
            FrameOutcome::Text(bytes)
            | FrameOutcome::Binary(bytes)
            | FrameOutcome::Compressed(bytes) => ParsedFrame::Message(bytes),
            FrameOutcome::Ping(payload) => ParsedFrame::Ping(payload),
            FrameOutcome::Pong(payload) => ParsedFrame::Pong(payload),
            FrameOutcome::Close(code, _) => ParsedFrame::Close(code.map(CloseCode::as_u16)),
            FrameOutcome::Invalid(error) => ParsedFrame::Invalid(error.code.as_u16()),
        })
        .collect()
}

/// Draws a client frame that is invalid now and then, in a way both implementations detect.
fn draw_frame(random: &mut Random, is_inside: &mut bool) -> Frame {
    let texts = ["", "{}", "κόσμε", "a longer text that is not short of anything 😀", "€"];
    let text = texts[random.below(texts.len())].as_bytes().to_vec();
    let mut frame = match random.below(12) {
        0 => Frame::new(FINAL | PING, text),
        1 => Frame::new(FINAL | PONG, text),
        2 if random.chance(1, 3) => {
            let codes: [u16; 8] = [1000, 1001, 1005, 999, 1016, 3000, 4999, 5000];
            let code = codes[random.below(codes.len())];
            Frame::new(FINAL | CLOSE, code.to_be_bytes())
        }
        3 => Frame::new(FINAL | if *is_inside { CONTINUATION } else { BINARY }, vec![b'b'; 70]),
        _ => {
            let is_final = if random.chance(1, 2) { FINAL } else { 0 };
            Frame::new(is_final | if *is_inside { CONTINUATION } else { TEXT }, text)
        }
    };
    if frame.first & 8 == 0 {
        *is_inside = frame.first & FINAL == 0;
    }
    if random.chance(1, 4) {
        frame.payload.resize([125, 126, 127, 300, 65_535, 65_536][random.below(6)], b'x');
    }
    frame.key = Some(std::array::from_fn(|_| u8::try_from(random.below(256)).unwrap()));
    match random.below(60) {
        0 => frame.first ^= 1 << random.below(8),
        1 => frame.key = None,
        2 => frame.payload.push(0xff),
        3 => frame.payload.truncate(1),
        _ => {}
    }
    frame
}

#[test]
fn tungstenite_parses_every_stream_alike() {
    let (mut broken, mut messages) = (0, 0);
    for seed in 0..3_000 {
        let mut random = Random::seeded(seed);
        let message_bytes_max = [300, 100_000][random.below(2)];
        let limits = FrameLimits { message_bytes_max, is_binary_allowed: true };
        let (mut stream, mut is_inside) = (Vec::new(), false);
        for _ in 0..=random.below(12) {
            draw_frame(&mut random, &mut is_inside).write(&mut stream);
        }
        let lengths: Vec<usize> = (0..200).map(|_| 1 + random.below(900)).collect();
        let (ours, mut theirs) = (
            parse_with_reader(&stream, &lengths, &limits),
            parse_with_tungstenite(&stream, Role::Server, &limits),
        );
        if let (Some(ParsedFrame::Invalid(ours)), Some(ParsedFrame::Invalid(theirs))) =
            (ours.last(), theirs.last_mut())
        {
            // A frame may violate several rules, or the text of a fragment may be invalid before
            // the next frame is; then each implementation may report another error.
            *theirs = *ours;
            broken += 1;
        }
        assert_eq!(ours, theirs, "seed {seed}");
        messages += ours.len();
    }
    assert!(broken > 100 && messages > 6_000, "{broken} {messages}");
}

#[test]
fn tungstenite_reads_the_written_frames() {
    let limits = FrameLimits { message_bytes_max: 1 << 20, is_binary_allowed: false };
    let (mut out, mut expected) = (Vec::new(), Vec::new());
    for length in [0, 1, 125, 126, 127, 200, 65_535, 65_536, 100_000] {
        let mark = writer::begin_message(&mut out);
        out.extend(std::iter::repeat_n(b'm', length));
        writer::end_message(&mut out, mark);
        expected.push(ParsedFrame::Message(vec![b'm'; length]));
        let payload = vec![b'p'; length.min(125)];
        writer::write_ping(&mut out, &payload);
        expected.push(ParsedFrame::Ping(payload.clone()));
        writer::write_pong(&mut out, &payload);
        expected.push(ParsedFrame::Pong(payload));
    }
    writer::write_close(
        &mut out,
        Some(ProtocolError::MESSAGE_TOO_BIG.code),
        ProtocolError::MESSAGE_TOO_BIG.reason,
    );
    expected.push(ParsedFrame::Close(Some(1009)));
    assert_eq!(parse_with_tungstenite(&out, Role::Client, &limits), expected);
}
