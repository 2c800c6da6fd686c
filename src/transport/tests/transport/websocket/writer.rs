//! Frames written by the server, byte by byte, and the texts in a message.

use corelane_transport::websocket::limits::{CloseCode, ProtocolError};
use corelane_transport::websocket::reader::DelimitedMessages;
use corelane_transport::websocket::writer;

/// Writes a message of `length` bytes after other output and returns its frame.
fn write_frame(length: usize) -> Vec<u8> {
    let mut out = b"before".to_vec();
    let mark = writer::begin_message(&mut out);
    assert_eq!(mark.body(), out.len());
    out.extend((0..length).map(|at| u8::try_from(at % 251).unwrap()));
    writer::end_message(&mut out, mark);
    assert!(out.starts_with(b"before"));
    out.split_off(6)
}

#[test]
fn written_header_is_minimal_for_its_length() {
    for (length, header) in [
        (0, &[0x81, 0][..]),
        (1, &[0x81, 1]),
        (125, &[0x81, 125]),
        (126, &[0x81, 126, 0, 126]),
        (65_535, &[0x81, 126, 0xff, 0xff]),
        (65_536, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        (100_000, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0x86, 0xa0]),
    ] {
        let frame = write_frame(length);
        assert_eq!(frame[..header.len()], *header, "{length}");
        let payload = &frame[header.len()..];
        assert!(payload.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
        assert_eq!(payload.len(), length);
    }
}

#[test]
fn cancelled_frame_leaves_nothing() {
    let mut out = b"before".to_vec();
    let mark = writer::begin_message(&mut out);
    out.extend_from_slice(b"partial response");
    writer::cancel_message(&mut out, mark);
    assert_eq!(out, b"before");
}

#[test]
fn binary_message_has_binary_opcode() {
    let mut out = Vec::new();
    let mark = writer::begin_message(&mut out);
    out.push(0xff);
    writer::end_binary_message(&mut out, mark);
    assert_eq!(out, [0x82, 1, 0xff]);
}

#[test]
fn control_frames_are_truncated_to_125_bytes() {
    let mut out = Vec::new();
    writer::write_ping(&mut out, b"");
    writer::write_pong(&mut out, b"abc");
    writer::write_close(&mut out, None, "dropped without a code");
    assert_eq!(out, [0x89, 0, 0x8a, 3, b'a', b'b', b'c', 0x88, 0]);
    out.clear();
    writer::write_ping(&mut out, &[b'p'; 200]);
    assert_eq!((out.len(), out[1]), (127, 125));
    out.clear();
    writer::write_close(&mut out, Some(CloseCode::TOO_BIG), "big");
    assert_eq!(out, [0x88, 5, 0x03, 0xf1, b'b', b'i', b'g']);
}

#[test]
fn close_reason_is_truncated_at_a_character() {
    let mut out = Vec::new();
    writer::write_close(&mut out, Some(CloseCode::NORMAL), &"é".repeat(100));
    assert_eq!((out.len(), out[1]), (2 + 124, 124));
    assert_eq!(std::str::from_utf8(&out[4..]), Ok(&*"é".repeat(61)));
}

#[test]
fn delimited_texts_are_split_at_line_feeds() {
    let texts = |message: &str| -> Vec<String> {
        DelimitedMessages::new(message.as_bytes()).map(|range| message[range].to_owned()).collect()
    };
    assert_eq!(texts("{}"), ["{}"]);
    assert_eq!(texts("{}\n"), ["{}"]);
    assert_eq!(texts("{\"a\":1}\n{\"b\":2}\r\n\n\r\n[3]"), ["{\"a\":1}", "{\"b\":2}", "[3]"]);
    for empty in ["", "\n", "\r\n\n"] {
        assert!(texts(empty).is_empty(), "{empty:?}");
    }
}

#[test]
fn strict_delimiter_requires_final_line_feed() {
    assert_eq!(DelimitedMessages::strict(b"{}\n{}\n").unwrap().count(), 2);
    for message in [&b"{}"[..], b"{}\n{}", b"", b"{}\n "] {
        assert_eq!(
            DelimitedMessages::strict(message).unwrap_err(),
            ProtocolError::MISSING_DELIMITER
        );
    }
    assert_eq!(ProtocolError::MISSING_DELIMITER.code, CloseCode::PROTOCOL);
}
