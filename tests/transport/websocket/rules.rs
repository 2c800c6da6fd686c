//! Every rule of RFC 6455, sections 5 and 7, kept and broken.

use corelane::transport::websocket::code::CloseCode;
use corelane::transport::websocket::fuzz::{self, Said};
use corelane::transport::websocket::limits::{Fault, FrameLimits};
use corelane::transport::websocket::reader::{FrameReader, Next};

use super::{
    BINARY, CLOSE, COMPRESSED, CONTINUATION, FINAL, Form, Frame, LIMITS, PING, PONG, TEXT,
    WITH_BINARY, fault, frame, said, text,
};

#[test]
fn the_examples_of_the_standard_are_read_as_it_says() {
    // RFC 6455, section 5.7.
    let hello = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(said(&hello), [text("Hello")]);
    let pong = [0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(said(&pong), [Said::Pong(b"Hello".to_vec())]);
    let fragments = [frame(TEXT, "Hel"), frame(FINAL | CONTINUATION, "lo")].concat();
    assert_eq!(said(&fragments), [text("Hello")]);
}

#[test]
fn a_message_of_any_length_form_is_read() {
    for length in [0, 1, 125, 126, 127, 65_535, 65_536, 70_000] {
        let message = "m".repeat(length);
        let stream = frame(FINAL | TEXT, message.as_str());
        let read = fuzz::stream(&stream, &[7, 13, 1], &LIMITS, false);
        assert_eq!(read, [text(&message)], "{length}");
    }
}

#[test]
fn a_length_that_fits_into_fewer_bytes_is_refused() {
    for (form, length) in [(Form::TwoBytes, 0), (Form::TwoBytes, 125), (Form::EightBytes, 0)]
        .into_iter()
        .chain([(Form::EightBytes, 126), (Form::EightBytes, 65_535)])
    {
        let mut stream = Vec::new();
        Frame { form, ..Frame::new(FINAL | TEXT, vec![b'm'; length]) }.write(&mut stream);
        assert_eq!(fault(&stream), Fault::LONG_LENGTH, "{form:?} {length}");
    }
}

#[test]
fn a_length_with_the_highest_of_its_bits_is_refused() {
    let mut stream = vec![FINAL | TEXT, 0x80 | 127];
    stream.extend_from_slice(&(1_u64 << 63).to_be_bytes());
    assert_eq!(fault(&stream), Fault::HUGE_LENGTH);
}

#[test]
fn a_reserved_bit_that_nobody_agreed_on_is_refused() {
    for bits in 1..8_u8 {
        for opcode in [CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG] {
            let stream = frame(FINAL | bits << 4 | opcode, "");
            assert_eq!(fault(&stream), Fault::RESERVED_BIT, "{bits} {opcode}");
        }
    }
}

#[test]
fn a_reserved_opcode_is_refused() {
    for opcode in (3..8).chain(11..16) {
        for is_final in [0, FINAL] {
            assert_eq!(fault(&frame(is_final | opcode, "x")), Fault::RESERVED_OPCODE, "{opcode}");
        }
    }
}

#[test]
fn a_frame_that_is_not_masked_is_refused_before_its_payload_has_come() {
    for opcode in [TEXT, CLOSE, PING, PONG] {
        assert_eq!(fault(&[FINAL | opcode, 5]), Fault::UNMASKED);
        let mut stream = Vec::new();
        Frame { key: None, ..Frame::new(FINAL | opcode, "hello") }.write(&mut stream);
        assert_eq!(fault(&stream), Fault::UNMASKED);
    }
}

#[test]
fn a_control_frame_has_no_fragments() {
    for opcode in [CLOSE, PING, PONG] {
        assert_eq!(fault(&frame(opcode, "x")), Fault::FRAGMENTED_CONTROL);
    }
}

#[test]
fn a_control_frame_has_at_most_125_bytes() {
    for opcode in [CLOSE, PING, PONG] {
        assert_eq!(fault(&frame(FINAL | opcode, vec![b'x'; 126])), Fault::LONG_CONTROL);
        assert_eq!(fault(&frame(FINAL | opcode, vec![b'x'; 65_536])), Fault::LONG_CONTROL);
    }
    let most = vec![b'x'; 125];
    assert_eq!(said(&frame(FINAL | PING, most.clone())), [Said::Ping(most.clone())]);
    assert_eq!(said(&frame(FINAL | PONG, most.clone())), [Said::Pong(most)]);
}

#[test]
fn a_continuation_needs_something_to_continue() {
    assert_eq!(fault(&frame(CONTINUATION, "x")), Fault::LONE_CONTINUATION);
    let behind = [frame(FINAL | TEXT, "a"), frame(FINAL | CONTINUATION, "b")].concat();
    assert_eq!(said(&behind), [text("a"), Said::Broken(Fault::LONE_CONTINUATION)]);
}

#[test]
fn a_message_does_not_begin_inside_another() {
    let stream = [frame(TEXT, "a"), frame(FINAL | TEXT, "b")].concat();
    assert_eq!(fault(&stream), Fault::INTERLEAVED);
    let stream = [frame(BINARY, "a"), frame(BINARY, "b")].concat();
    let read = fuzz::stream(&stream, &[1], &WITH_BINARY, false);
    assert_eq!(read, [Said::Broken(Fault::INTERLEAVED)]);
}

#[test]
fn control_frames_stand_between_fragments_and_leave_the_message_alone() {
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
    let ping = |payload: &str| Said::Ping(payload.into());
    let expected = [ping("1"), Said::Pong(Vec::new()), ping(""), text("abc"), text("d")];
    assert_eq!(said(&stream.concat()), expected);
}

#[test]
fn fragments_without_bytes_are_a_message_without_bytes() {
    let empty = [frame(TEXT, ""), frame(CONTINUATION, ""), frame(FINAL | CONTINUATION, "")];
    assert_eq!(said(&empty.concat()), [text("")]);
}

#[test]
fn binary_messages_are_refused_by_their_header_unless_they_are_taken() {
    assert_eq!(fault(&[FINAL | BINARY, 0x80 | 5]), Fault::BINARY);
    assert_eq!(Fault::BINARY.code, CloseCode::UNSUPPORTED);
    let stream = [frame(BINARY, [0xff]), frame(FINAL | CONTINUATION, [0xfe])].concat();
    let whole = frame(FINAL | BINARY, [0xff, 0xfe]);
    for stream in [stream, whole] {
        let read = fuzz::stream(&stream, &[1], &WITH_BINARY, false);
        assert_eq!(read, [Said::Binary(vec![0xff, 0xfe])]);
    }
}

#[test]
fn a_message_too_big_is_refused_by_its_header() {
    let limits = FrameLimits { message_bytes_max: 10, ..LIMITS };
    let read = |stream: &[u8]| fuzz::stream(stream, &[1], &limits, false);
    assert_eq!(read(&frame(FINAL | TEXT, "0123456789")), [text("0123456789")]);
    // The bytes of a header up to its length.
    for (length, bytes) in [(11, 2), (200, 4), (70_000, 10)] {
        let header = &frame(FINAL | TEXT, "m".repeat(length))[..bytes];
        assert_eq!(read(&header[..bytes - 1]), []);
        assert_eq!(read(header), [Said::Broken(Fault::TOO_BIG)]);
    }
    let fragments = [frame(TEXT, "01234567"), frame(CONTINUATION, "89a")].concat();
    assert_eq!(read(&fragments[..fragments.len() - 3]), [Said::Broken(Fault::TOO_BIG)]);
    // What a control frame has does not count.
    let stream = [frame(TEXT, "01234567"), frame(FINAL | PING, "0123456789abc")].concat();
    assert_eq!(read(&stream), [Said::Ping(b"0123456789abc".to_vec())]);
}

#[test]
fn text_in_pieces_fails_at_the_byte_that_cannot_become_text() {
    // Autobahn 6.4: κόσμε, then what would be beyond the last code point.
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
        let expected = if at <= end { Next::NeedMore } else { Next::Broken(Fault::NOT_UTF8) };
        assert_eq!(next, expected, "byte {at}");
    }
}

#[test]
fn text_that_is_not_utf8_is_refused_wherever_it_is_cut() {
    for bad in [
        &b"\xff"[..],
        b"ab\x80",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
        b"\xf0\x9f\x98",
    ] {
        assert_eq!(fault(&frame(FINAL | TEXT, bad)), Fault::NOT_UTF8);
        for cut in 0..=bad.len() {
            let (start, end) = bad.split_at(cut);
            let stream = [frame(TEXT, start), frame(FINAL | CONTINUATION, end)].concat();
            assert_eq!(fault(&stream), Fault::NOT_UTF8, "{bad:x?} {cut}");
        }
    }
    for character in ["é", "€", "😀", "\u{10ffff}"] {
        let bytes = character.as_bytes();
        let fragments: Vec<u8> =
            bytes.iter().enumerate().flat_map(|(at, &byte)| fragment(at, bytes, byte)).collect();
        assert_eq!(said(&fragments), [text(character)]);
    }
}

/// The byte at `at` of a message as a fragment of it.
fn fragment(at: usize, message: &[u8], byte: u8) -> Vec<u8> {
    let opcode = if at == 0 { TEXT } else { CONTINUATION };
    let is_final = if at + 1 == message.len() { FINAL } else { 0 };
    frame(is_final | opcode, [byte])
}

/// A close frame with this payload.
fn close(payload: &[u8]) -> Vec<u8> {
    frame(FINAL | CLOSE, payload)
}

#[test]
fn a_close_frame_tells_its_code() {
    assert_eq!(said(&close(&[])), [Said::Close(None, Vec::new())]);
    for number in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999] {
        let mut payload = u16::to_be_bytes(number).to_vec();
        payload.extend_from_slice("bye ✓".as_bytes());
        let code = CloseCode::read(number);
        assert_eq!(code.map(CloseCode::number), Some(number));
        assert_eq!(said(&close(&payload)), [Said::Close(code, payload)]);
    }
}

#[test]
fn a_close_code_that_may_not_be_sent_is_refused() {
    for number in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
        assert_eq!(fault(&close(&u16::to_be_bytes(number))), Fault::BAD_CODE, "{number}");
    }
}

#[test]
fn half_a_close_code_and_a_reason_that_is_no_text_are_refused() {
    assert_eq!(fault(&close(&[3])), Fault::HALF_CODE);
    assert_eq!(fault(&close(&[3, 0xe8, 0xff])), Fault::BAD_REASON);
    assert_eq!(fault(&close(&[3, 0xe8, 0xe2, 0x82])), Fault::BAD_REASON);
}

#[test]
fn nothing_is_read_behind_a_close_or_a_fault() {
    for (end, first) in [
        (close(&[3, 0xe8]), Next::Close(Some(CloseCode::NORMAL))),
        (frame(FINAL | 3, ""), Next::Broken(Fault::RESERVED_OPCODE)),
    ] {
        let mut reader = FrameReader::new();
        let mut stream = [end, frame(FINAL | TEXT, "more")].concat();
        let mut from = 0;
        assert_eq!(reader.next(&mut stream, &mut from, &LIMITS, Vec::new), first);
        for _ in 0..2 {
            let next = reader.next(&mut stream, &mut from, &LIMITS, Vec::new);
            assert_eq!((next, from), (Next::NeedMore, stream.len()));
            from = 0;
        }
        assert!(!reader.is_inside_message());
    }
}

#[test]
fn a_close_in_the_middle_of_a_message_ends_it() {
    let stream = [frame(TEXT, "half"), close(&[3, 0xe9])].concat();
    let code = Some(CloseCode::GOING_AWAY);
    assert_eq!(said(&stream), [Said::Close(code, vec![3, 0xe9])]);
}

#[test]
fn only_the_first_frame_of_a_message_says_that_it_is_compressed() {
    let read = |stream: &[u8]| fuzz::stream(stream, &[1], &LIMITS, true);
    let whole = frame(FINAL | COMPRESSED | TEXT, [0xf2]);
    let fragments = [frame(COMPRESSED | TEXT, []), frame(FINAL | CONTINUATION, [0xf2])].concat();
    for stream in [&whole, &fragments] {
        assert_eq!(read(stream), [Said::Compressed(vec![0xf2])]);
    }
    let again = [frame(COMPRESSED | TEXT, [1]), frame(COMPRESSED | CONTINUATION, [2])].concat();
    assert_eq!(read(&again), [Said::Broken(Fault::RESERVED_BIT)]);
    let control = frame(FINAL | COMPRESSED | PING, []);
    assert_eq!(read(&control), [Said::Broken(Fault::RESERVED_BIT)]);
    assert_eq!(read(&frame(FINAL | TEXT, "plain")), [text("plain")]);
}

#[test]
fn every_fault_has_a_reason_of_its_own_that_a_close_frame_has_room_for() {
    for (place, fault) in Fault::ALL.iter().enumerate() {
        assert!(matches!(fault.reason.len(), 1..=123), "{fault:?}");
        let twins = Fault::ALL.iter().filter(|other| other.reason == fault.reason).count();
        assert_eq!(twins, 1, "{fault:?}");
        assert!(Fault::ALL[..place].iter().all(|other| other != fault));
        assert_eq!(CloseCode::read(fault.code.number()), Some(fault.code));
    }
}
