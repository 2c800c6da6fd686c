//! Frames of the server, byte by byte, and the texts in a message.

use corelane::transport::websocket::code::CloseCode;
use corelane::transport::websocket::delimiter::Messages;
use corelane::transport::websocket::limits::Fault;
use corelane::transport::websocket::writer;

/// A message of `length` bytes in a frame, behind something else.
fn written(length: usize) -> Vec<u8> {
    let mut out = b"before".to_vec();
    let mark = writer::begin(&mut out);
    assert_eq!((mark.head(), mark.body()), (6, out.len()));
    out.extend((0..length).map(|at| u8::try_from(at % 251).unwrap()));
    writer::end(&mut out, mark);
    assert!(out.starts_with(b"before"));
    out.split_off(6)
}

#[test]
fn a_header_is_the_shortest_for_its_length() {
    for (length, header) in [
        (0, &[0x81, 0][..]),
        (1, &[0x81, 1]),
        (125, &[0x81, 125]),
        (126, &[0x81, 126, 0, 126]),
        (65_535, &[0x81, 126, 0xff, 0xff]),
        (65_536, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        (100_000, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0x86, 0xa0]),
    ] {
        let frame = written(length);
        assert_eq!(frame[..header.len()], *header, "{length}");
        let payload = &frame[header.len()..];
        assert!(payload.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
        assert_eq!(payload.len(), length);
    }
}

#[test]
fn a_frame_that_was_cancelled_leaves_nothing() {
    let mut out = b"before".to_vec();
    let mark = writer::begin(&mut out);
    out.extend_from_slice(b"half an answer");
    writer::cancel(&mut out, mark);
    assert_eq!(out, b"before");
}

#[test]
fn binary_data_says_that_it_is() {
    let mut out = Vec::new();
    let mark = writer::begin(&mut out);
    out.push(0xff);
    writer::end_binary(&mut out, mark);
    assert_eq!(out, [0x82, 1, 0xff]);
}

#[test]
fn control_frames_are_whole_and_no_longer_than_they_may_be() {
    let mut out = Vec::new();
    writer::ping(&mut out, b"");
    writer::pong(&mut out, b"abc");
    writer::close(&mut out, None, "nobody reads this");
    assert_eq!(out, [0x89, 0, 0x8a, 3, b'a', b'b', b'c', 0x88, 0]);
    out.clear();
    writer::ping(&mut out, &[b'p'; 200]);
    assert_eq!((out.len(), out[1]), (127, 125));
    out.clear();
    writer::close(&mut out, Some(CloseCode::TOO_BIG), "big");
    assert_eq!(out, [0x88, 5, 0x03, 0xf1, b'b', b'i', b'g']);
}

#[test]
fn a_close_reason_is_cut_between_characters() {
    let mut out = Vec::new();
    writer::close(&mut out, Some(CloseCode::NORMAL), &"é".repeat(100));
    assert_eq!((out.len(), out[1]), (2 + 124, 124));
    assert_eq!(std::str::from_utf8(&out[4..]), Ok(&*"é".repeat(61)));
}

#[test]
fn texts_in_one_message_are_told_apart_by_line_feeds() {
    let texts = |message: &str| -> Vec<String> {
        Messages::new(message.as_bytes()).map(|range| message[range].to_owned()).collect()
    };
    assert_eq!(texts("{}"), ["{}"]);
    assert_eq!(texts("{}\n"), ["{}"]);
    assert_eq!(texts("{\"a\":1}\n{\"b\":2}\r\n\n\r\n[3]"), ["{\"a\":1}", "{\"b\":2}", "[3]"]);
    for empty in ["", "\n", "\r\n\n"] {
        assert!(texts(empty).is_empty(), "{empty:?}");
    }
}

#[test]
fn a_strict_delimiter_is_not_left_out() {
    assert_eq!(Messages::strict(b"{}\n{}\n").unwrap().count(), 2);
    for message in [&b"{}"[..], b"{}\n{}", b"", b"{}\n "] {
        assert_eq!(Messages::strict(message).unwrap_err(), Fault::NO_DELIMITER);
    }
    assert_eq!(Fault::NO_DELIMITER.code, CloseCode::PROTOCOL);
}
