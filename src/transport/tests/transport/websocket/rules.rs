//! The rules of RFC 6455, sections 5 and 7: valid and invalid frames.

use crate::frames_fuzz::{FrameOutcome, check_stream};
use corelane_transport::websocket::limits::{CloseCode, FrameLimits, ProtocolError};
use corelane_transport::websocket::reader::{FrameEvent, FrameReader};

use super::{
    BINARY, CLOSE, COMPRESSED, CONTINUATION, FINAL, Frame, LIMITS, LengthEncoding, PING, PONG,
    TEXT, WITH_BINARY, frame, protocol_error, read_outcomes, text,
};

#[test]
fn rfc_6455_example_frames_are_parsed() {
    // RFC 6455, section 5.7.
    let hello = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(read_outcomes(&hello), [text("Hello")]);
    let pong = [0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(read_outcomes(&pong), [FrameOutcome::Pong(b"Hello".to_vec())]);
    let fragments = [frame(TEXT, "Hel"), frame(FINAL | CONTINUATION, "lo")].concat();
    assert_eq!(read_outcomes(&fragments), [text("Hello")]);
}

#[test]
fn message_of_any_length_encoding_is_parsed() {
    for length in [0, 1, 125, 126, 127, 65_535, 65_536, 70_000] {
        let message = "m".repeat(length);
        let stream = frame(FINAL | TEXT, message.as_str());
        let read = check_stream(&stream, &[7, 13, 1], &LIMITS, false);
        assert_eq!(read, [text(&message)], "{length}");
    }
}

#[test]
fn non_minimal_length_is_rejected() {
    for (form, length) in [
        (LengthEncoding::TwoBytes, 0),
        (LengthEncoding::TwoBytes, 125),
        (LengthEncoding::EightBytes, 0),
    ]
    .into_iter()
    .chain([(LengthEncoding::EightBytes, 126), (LengthEncoding::EightBytes, 65_535)])
    {
        let mut stream = Vec::new();
        Frame { length_encoding: form, ..Frame::new(FINAL | TEXT, vec![b'm'; length]) }
            .write(&mut stream);
        assert_eq!(protocol_error(&stream), ProtocolError::NON_MINIMAL_LENGTH, "{form:?} {length}");
    }
}

#[test]
fn length_over_63_bits_is_rejected() {
    let mut stream = vec![FINAL | TEXT, 0x80 | 127];
    stream.extend_from_slice(&(1_u64 << 63).to_be_bytes());
    assert_eq!(protocol_error(&stream), ProtocolError::LENGTH_OVERFLOW);
}

#[test]
fn reserved_bit_without_extension_is_rejected() {
    for bits in 1..8_u8 {
        for opcode in [CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG] {
            let stream = frame(FINAL | bits << 4 | opcode, "");
            assert_eq!(protocol_error(&stream), ProtocolError::RESERVED_BIT, "{bits} {opcode}");
        }
    }
}

#[test]
fn reserved_opcode_is_rejected() {
    for opcode in (3..8).chain(11..16) {
        for is_final in [0, FINAL] {
            assert_eq!(
                protocol_error(&frame(is_final | opcode, "x")),
                ProtocolError::RESERVED_OPCODE,
                "{opcode}"
            );
        }
    }
}

#[test]
fn unmasked_frame_is_rejected_before_its_payload() {
    for opcode in [TEXT, CLOSE, PING, PONG] {
        assert_eq!(protocol_error(&[FINAL | opcode, 5]), ProtocolError::UNMASKED);
        let mut stream = Vec::new();
        Frame { key: None, ..Frame::new(FINAL | opcode, "hello") }.write(&mut stream);
        assert_eq!(protocol_error(&stream), ProtocolError::UNMASKED);
    }
}

#[test]
fn fragmented_control_frame_is_rejected() {
    for opcode in [CLOSE, PING, PONG] {
        assert_eq!(protocol_error(&frame(opcode, "x")), ProtocolError::FRAGMENTED_CONTROL);
    }
}

#[test]
fn control_frame_over_125_bytes_is_rejected() {
    for opcode in [CLOSE, PING, PONG] {
        assert_eq!(
            protocol_error(&frame(FINAL | opcode, vec![b'x'; 126])),
            ProtocolError::OVERSIZED_CONTROL
        );
        assert_eq!(
            protocol_error(&frame(FINAL | opcode, vec![b'x'; 65_536])),
            ProtocolError::OVERSIZED_CONTROL
        );
    }
    let longest = vec![b'x'; 125];
    assert_eq!(
        read_outcomes(&frame(FINAL | PING, longest.clone())),
        [FrameOutcome::Ping(longest.clone())]
    );
    assert_eq!(read_outcomes(&frame(FINAL | PONG, longest.clone())), [FrameOutcome::Pong(longest)]);
}

#[test]
fn continuation_without_message_is_rejected() {
    assert_eq!(protocol_error(&frame(CONTINUATION, "x")), ProtocolError::UNEXPECTED_CONTINUATION);
    let second = [frame(FINAL | TEXT, "a"), frame(FINAL | CONTINUATION, "b")].concat();
    assert_eq!(
        read_outcomes(&second),
        [text("a"), FrameOutcome::Invalid(ProtocolError::UNEXPECTED_CONTINUATION)]
    );
}

#[test]
fn interleaved_message_is_rejected() {
    let stream = [frame(TEXT, "a"), frame(FINAL | TEXT, "b")].concat();
    assert_eq!(protocol_error(&stream), ProtocolError::INTERLEAVED);
    let stream = [frame(BINARY, "a"), frame(BINARY, "b")].concat();
    let read = check_stream(&stream, &[1], &WITH_BINARY, false);
    assert_eq!(read, [FrameOutcome::Invalid(ProtocolError::INTERLEAVED)]);
}

#[test]
fn control_frames_between_fragments_are_parsed() {
    let stream = [
        frame(TEXT, "a"),
        frame(FINAL | PING, "1"),
        frame(CONTINUATION, ""),
        frame(FINAL | PONG, ""),
        frame(CONTINUATION, "b"),
        frame(FINAL | PING, ""),
        frame(FINAL | CONTINUATION, "c"),
        frame(FINAL | TEXT, "d"),
    ];
    let ping = |payload: &str| FrameOutcome::Ping(payload.into());
    let expected = [ping("1"), FrameOutcome::Pong(Vec::new()), ping(""), text("abc"), text("d")];
    assert_eq!(read_outcomes(&stream.concat()), expected);
}

#[test]
fn empty_fragments_are_an_empty_message() {
    let empty = [frame(TEXT, ""), frame(CONTINUATION, ""), frame(FINAL | CONTINUATION, "")];
    assert_eq!(read_outcomes(&empty.concat()), [text("")]);
}

#[test]
fn binary_message_is_rejected_unless_allowed() {
    assert_eq!(protocol_error(&[FINAL | BINARY, 0x80 | 5]), ProtocolError::UNSUPPORTED_BINARY);
    assert_eq!(ProtocolError::UNSUPPORTED_BINARY.code, CloseCode::UNSUPPORTED);
    let stream = [frame(BINARY, [0xff]), frame(FINAL | CONTINUATION, [0xfe])].concat();
    let whole = frame(FINAL | BINARY, [0xff, 0xfe]);
    for stream in [stream, whole] {
        let read = check_stream(&stream, &[1], &WITH_BINARY, false);
        assert_eq!(read, [FrameOutcome::Binary(vec![0xff, 0xfe])]);
    }
}

#[test]
fn oversized_message_is_rejected_by_its_header() {
    let limits = FrameLimits { message_bytes_max: 10, ..LIMITS };
    let read = |stream: &[u8]| check_stream(stream, &[1], &limits, false);
    assert_eq!(read(&frame(FINAL | TEXT, "0123456789")), [text("0123456789")]);
    // Bytes of a header up to the end of its length.
    for (length, bytes) in [(11, 2), (200, 4), (70_000, 10)] {
        let header = &frame(FINAL | TEXT, "m".repeat(length))[..bytes];
        assert_eq!(read(&header[..bytes - 1]), []);
        assert_eq!(read(header), [FrameOutcome::Invalid(ProtocolError::MESSAGE_TOO_BIG)]);
    }
    let fragments = [frame(TEXT, "01234567"), frame(CONTINUATION, "89a")].concat();
    assert_eq!(
        read(&fragments[..fragments.len() - 3]),
        [FrameOutcome::Invalid(ProtocolError::MESSAGE_TOO_BIG)]
    );
    // Control frames do not count.
    let stream = [frame(TEXT, "01234567"), frame(FINAL | PING, "0123456789abc")].concat();
    assert_eq!(read(&stream), [FrameOutcome::Ping(b"0123456789abc".to_vec())]);
}

#[test]
fn fragmented_text_fails_at_first_invalid_byte() {
    // Autobahn 6.4: κόσμε, then a value beyond the last code point.
    let good = "κόσμε".as_bytes();
    let mut bad = good.to_vec();
    bad.extend_from_slice(&[0xf4, 0x90]);
    let mut reader = FrameReader::new();
    let mut stream = frame(TEXT, bad);
    stream.extend(frame(FINAL | CONTINUATION, "edited"));
    let end = 6 + good.len();
    for at in 0..=end + 1 {
        let mut from = 0;
        let next = reader.next(&mut stream[at..=at], &mut from, &LIMITS, Vec::new);
        let expected = if at <= end {
            FrameEvent::NeedMore
        } else {
            FrameEvent::Invalid(ProtocolError::INVALID_UTF8)
        };
        assert_eq!(next, expected, "byte {at}");
    }
}

#[test]
fn invalid_utf8_is_rejected_at_any_split() {
    for bad in [
        &b"\xff"[..],
        b"ab\x80",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
        b"\xf0\x9f\x98",
    ] {
        assert_eq!(protocol_error(&frame(FINAL | TEXT, bad)), ProtocolError::INVALID_UTF8);
        for cut in 0..=bad.len() {
            let (start, end) = bad.split_at(cut);
            let stream = [frame(TEXT, start), frame(FINAL | CONTINUATION, end)].concat();
            assert_eq!(protocol_error(&stream), ProtocolError::INVALID_UTF8, "{bad:x?} {cut}");
        }
    }
    for character in ["é", "€", "😀", "\u{10ffff}"] {
        let bytes = character.as_bytes();
        let fragments: Vec<u8> =
            bytes.iter().enumerate().flat_map(|(at, &byte)| fragment(at, bytes, byte)).collect();
        assert_eq!(read_outcomes(&fragments), [text(character)]);
    }
}

/// Returns byte `at` of a message as a fragment.
fn fragment(at: usize, message: &[u8], byte: u8) -> Vec<u8> {
    let opcode = if at == 0 { TEXT } else { CONTINUATION };
    let is_final = if at + 1 == message.len() { FINAL } else { 0 };
    frame(is_final | opcode, [byte])
}

/// Encodes a close frame.
fn close(payload: &[u8]) -> Vec<u8> {
    frame(FINAL | CLOSE, payload)
}

#[test]
fn close_frame_has_optional_code() {
    assert_eq!(read_outcomes(&close(&[])), [FrameOutcome::Close(None, Vec::new())]);
    for number in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999] {
        let mut payload = u16::to_be_bytes(number).to_vec();
        payload.extend_from_slice("bye ✓".as_bytes());
        let code = CloseCode::from_u16(number);
        assert_eq!(code.map(CloseCode::as_u16), Some(number));
        assert_eq!(read_outcomes(&close(&payload)), [FrameOutcome::Close(code, payload)]);
    }
}

#[test]
fn invalid_close_code_is_rejected() {
    for number in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
        assert_eq!(
            protocol_error(&close(&u16::to_be_bytes(number))),
            ProtocolError::INVALID_CLOSE_CODE,
            "{number}"
        );
    }
}

#[test]
fn truncated_close_code_and_reason_are_rejected() {
    assert_eq!(protocol_error(&close(&[3])), ProtocolError::TRUNCATED_CLOSE_CODE);
    assert_eq!(protocol_error(&close(&[3, 0xe8, 0xff])), ProtocolError::INVALID_CLOSE_REASON);
    assert_eq!(protocol_error(&close(&[3, 0xe8, 0xe2, 0x82])), ProtocolError::INVALID_CLOSE_REASON);
}

#[test]
fn nothing_is_read_after_close_or_error() {
    for (end, first) in [
        (close(&[3, 0xe8]), FrameEvent::Close(Some(CloseCode::NORMAL))),
        (frame(FINAL | 3, ""), FrameEvent::Invalid(ProtocolError::RESERVED_OPCODE)),
    ] {
        let mut reader = FrameReader::new();
        let mut stream = [end, frame(FINAL | TEXT, "more")].concat();
        let mut from = 0;
        assert_eq!(reader.next(&mut stream, &mut from, &LIMITS, Vec::new), first);
        for _ in 0..2 {
            let next = reader.next(&mut stream, &mut from, &LIMITS, Vec::new);
            assert_eq!((next, from), (FrameEvent::NeedMore, stream.len()));
            from = 0;
        }
        assert!(!reader.is_inside_message());
    }
}

#[test]
fn close_frame_ends_an_incomplete_message() {
    let stream = [frame(TEXT, "half"), close(&[3, 0xe9])].concat();
    let code = Some(CloseCode::GOING_AWAY);
    assert_eq!(read_outcomes(&stream), [FrameOutcome::Close(code, vec![3, 0xe9])]);
}

#[test]
fn compressed_bit_is_valid_only_on_first_frame() {
    let read = |stream: &[u8]| check_stream(stream, &[1], &LIMITS, true);
    let whole = frame(FINAL | COMPRESSED | TEXT, [0xf2]);
    let fragments = [frame(COMPRESSED | TEXT, []), frame(FINAL | CONTINUATION, [0xf2])].concat();
    for stream in [&whole, &fragments] {
        assert_eq!(read(stream), [FrameOutcome::Compressed(vec![0xf2])]);
    }
    let again = [frame(COMPRESSED | TEXT, [1]), frame(COMPRESSED | CONTINUATION, [2])].concat();
    assert_eq!(read(&again), [FrameOutcome::Invalid(ProtocolError::RESERVED_BIT)]);
    let control = frame(FINAL | COMPRESSED | PING, []);
    assert_eq!(read(&control), [FrameOutcome::Invalid(ProtocolError::RESERVED_BIT)]);
    assert_eq!(read(&frame(FINAL | TEXT, "plain")), [text("plain")]);
}

#[test]
fn every_protocol_error_has_a_short_unique_reason() {
    for (index, error) in ProtocolError::ALL.iter().enumerate() {
        assert!(matches!(error.reason.len(), 1..=123), "{error:?}");
        let same = ProtocolError::ALL.iter().filter(|other| other.reason == error.reason).count();
        assert_eq!(same, 1, "{error:?}");
        assert!(ProtocolError::ALL[..index].iter().all(|other| other != error));
        assert_eq!(CloseCode::from_u16(error.code.as_u16()), Some(error.code));
    }
}
