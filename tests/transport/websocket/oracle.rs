//! The same streams to another implementation, tungstenite, driven from memory: it hears what our
//! reader hears, and understands what our writer writes.

use corelane::base::random::Random;
use corelane::transport::websocket::code::CloseCode;
use corelane::transport::websocket::fuzz::{self, Said};
use corelane::transport::websocket::limits::{Fault, FrameLimits};
use corelane::transport::websocket::writer;
use tungstenite::error::{Error, ProtocolError};
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket};

use super::{BINARY, CLOSE, CONTINUATION, FINAL, Frame, Memory, PING, PONG, TEXT};

/// What one side says of a stream, told alike.
#[derive(Debug, Eq, PartialEq)]
enum Heard {
    Message(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>),
    /// The code that the connection is closed with.
    Broken(u16),
}

fn heard_by_oracle(stream: &[u8], role: Role, limits: &FrameLimits) -> Vec<Heard> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(limits.message_bytes_max))
        .max_frame_size(Some(limits.message_bytes_max));
    let mut socket = WebSocket::from_raw_socket(Memory(stream), role, Some(config));
    let mut heard = Vec::new();
    loop {
        heard.push(match socket.read() {
            Ok(Message::Text(text)) => Heard::Message(text.as_bytes().to_vec()),
            Ok(Message::Binary(bytes)) => Heard::Message(bytes.to_vec()),
            Ok(Message::Ping(payload)) => Heard::Ping(payload.to_vec()),
            Ok(Message::Pong(payload)) => Heard::Pong(payload.to_vec()),
            Ok(Message::Close(close)) => {
                let close = close.map(|close| (u16::from(close.code), close.reason));
                heard.push(match close {
                    // How it tells of a code that may not be sent.
                    Some((1002, reason)) if reason == "Protocol violation" => Heard::Broken(1002),
                    close => Heard::Close(close.map(|(code, _)| code)),
                });
                return heard;
            }
            Ok(Message::Frame(frame)) => panic!("{frame:?}"),
            Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => return heard,
            Err(Error::Protocol(_)) => Heard::Broken(CloseCode::PROTOCOL.number()),
            Err(Error::Utf8(_)) => Heard::Broken(CloseCode::INVALID.number()),
            Err(Error::Capacity(_)) => Heard::Broken(CloseCode::TOO_BIG.number()),
            Err(error) => panic!("{error}"),
        });
        if matches!(heard.last(), Some(Heard::Broken(_))) {
            return heard;
        }
    }
}

fn heard_by_us(stream: &[u8], lengths: &[usize], limits: &FrameLimits) -> Vec<Heard> {
    let said = fuzz::stream(stream, lengths, limits, false).into_iter();
    said.map(|said| match said {
        Said::Text(bytes) | Said::Binary(bytes) | Said::Compressed(bytes) => Heard::Message(bytes),
        Said::Ping(payload) => Heard::Ping(payload),
        Said::Pong(payload) => Heard::Pong(payload),
        Said::Close(code, _) => Heard::Close(code.map(CloseCode::number)),
        Said::Broken(fault) => Heard::Broken(fault.code.number()),
    })
    .collect()
}

/// A frame of a client that breaks a rule now and then, one that both sides know of.
fn draw(random: &mut Random, is_inside: &mut bool) -> Frame {
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
fn another_implementation_hears_the_same_in_every_stream() {
    let (mut broken, mut messages) = (0, 0);
    for seed in 0..3_000 {
        let mut random = Random::seeded(seed);
        let message_bytes_max = [300, 100_000][random.below(2)];
        let limits = FrameLimits { message_bytes_max, is_binary_allowed: true };
        let (mut stream, mut is_inside) = (Vec::new(), false);
        for _ in 0..=random.below(12) {
            draw(&mut random, &mut is_inside).write(&mut stream);
        }
        let lengths: Vec<usize> = (0..200).map(|_| 1 + random.below(900)).collect();
        let (ours, mut theirs) = (
            heard_by_us(&stream, &lengths, &limits),
            heard_by_oracle(&stream, Role::Server, &limits),
        );
        if let (Some(Heard::Broken(ours)), Some(Heard::Broken(theirs))) =
            (ours.last(), theirs.last_mut())
        {
            // Where a frame breaks several rules, or the text of a fragment breaks one before the
            // frame that follows does, each may name its own.
            *theirs = *ours;
            broken += 1;
        }
        assert_eq!(ours, theirs, "seed {seed}");
        messages += ours.len();
    }
    assert!(broken > 100 && messages > 6_000, "{broken} {messages}");
}

#[test]
fn another_implementation_reads_what_is_written() {
    let limits = FrameLimits { message_bytes_max: 1 << 20, is_binary_allowed: false };
    let (mut out, mut expected) = (Vec::new(), Vec::new());
    for length in [0, 1, 125, 126, 127, 200, 65_535, 65_536, 100_000] {
        let mark = writer::begin(&mut out);
        out.extend(std::iter::repeat_n(b'm', length));
        writer::end(&mut out, mark);
        expected.push(Heard::Message(vec![b'm'; length]));
        let payload = vec![b'p'; length.min(125)];
        writer::ping(&mut out, &payload);
        expected.push(Heard::Ping(payload.clone()));
        writer::pong(&mut out, &payload);
        expected.push(Heard::Pong(payload));
    }
    writer::close(&mut out, Some(Fault::TOO_BIG.code), Fault::TOO_BIG.reason);
    expected.push(Heard::Close(Some(1009)));
    assert_eq!(heard_by_oracle(&out, Role::Client, &limits), expected);
}
