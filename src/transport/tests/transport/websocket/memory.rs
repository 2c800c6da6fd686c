//! Memory use of frames: none for complete messages, pooled buffers for others.

use corelane_transport::websocket::limits::FrameLimits;
use corelane_transport::websocket::reader::{FrameEvent, FrameReader};
use corelane_transport::websocket::writer;

use super::{CONTINUATION, FINAL, LIMITS, PING, TEXT, frame};
use corelane_test_support::alloc_counter::{count_allocations, peak_bytes};

/// Reads a piece of input with pooled buffers. Returns the number of messages.
fn read_messages(reader: &mut FrameReader, arrival: &mut [u8], pool: &mut Vec<Vec<u8>>) -> usize {
    let (mut from, mut count) = (0, 0);
    loop {
        match reader.next(arrival, &mut from, &LIMITS, || pool.pop().unwrap_or_default()) {
            FrameEvent::InPlace { start, end, .. } => {
                assert!(start <= end && end <= from);
                count += 1;
            }
            FrameEvent::Assembled { .. } => {
                let mut message = reader.take().into_buffer();
                message.clear();
                pool.push(message);
                count += 1;
            }
            FrameEvent::NeedMore => return count,
            next => panic!("{next:?}"),
        }
    }
}

#[test]
fn message_in_one_read_allocates_nothing() {
    let message = "m".repeat(200);
    let mut arrival = frame(FINAL | TEXT, message.as_str()).repeat(3);
    let mut reader = FrameReader::new();
    let spare = || -> Vec<u8> { panic!("a buffer was requested") };
    let (mut from, mut read) = (0, 0);
    let allocated = count_allocations(|| {
        while let FrameEvent::InPlace { start, end, is_compressed } =
            reader.next(&mut arrival, &mut from, &LIMITS, spare)
        {
            assert!(!is_compressed && arrival[start..end] == *message.as_bytes());
            assert_eq!((start, end), (read * 208 + 8, from));
            read += 1;
        }
    });
    assert_eq!((allocated, read, from), (0, 3, arrival.len()));
}

#[test]
fn partial_messages_use_only_pooled_buffers() {
    let whole = frame(FINAL | TEXT, "m".repeat(300));
    let fragments =
        [frame(TEXT, "a".repeat(90)), frame(FINAL | CONTINUATION, "b".repeat(90))].concat();
    let stream = [whole, fragments].concat();
    let mut reader = FrameReader::new();
    let mut pool = Vec::with_capacity(4);
    let mut turn = |cut: usize| {
        let mut arrival = stream.clone();
        let (start, end) = arrival.split_at_mut(cut);
        count_allocations(|| {
            let read = read_messages(&mut reader, start, &mut pool)
                + read_messages(&mut reader, end, &mut pool);
            assert_eq!(read, 2, "split at {cut}");
        })
    };
    turn(200);
    for cut in 1..stream.len() {
        assert_eq!(turn(cut), 0, "split at {cut}");
    }
}

#[test]
fn writing_frames_allocates_nothing() {
    let mut out = Vec::with_capacity(1 << 10);
    let allocated = count_allocations(|| {
        for length in [3, 125, 126, 200] {
            let mark = writer::begin_message(&mut out);
            out.extend(std::iter::repeat_n(b'm', length));
            writer::end_message(&mut out, mark);
        }
        writer::write_pong(&mut out, b"pong");
        writer::write_close(&mut out, None, "");
    });
    assert_eq!(allocated, 0);
}

#[test]
fn idle_frame_reader_holds_no_memory() {
    assert!(size_of::<FrameReader>() <= 64);
    let mut reader = FrameReader::new();
    let mut arrival = [frame(FINAL | PING, "payload"), frame(FINAL | TEXT, "{}")].concat();
    let ((), peak) = peak_bytes(|| {
        let mut from = 0;
        assert_eq!(reader.next(&mut arrival, &mut from, &LIMITS, Vec::new), FrameEvent::Ping);
        assert_eq!(reader.control_payload(), b"payload");
        let next = reader.next(&mut arrival, &mut from, &LIMITS, Vec::new);
        assert!(matches!(next, FrameEvent::InPlace { .. }));
        assert!(reader.control_payload().is_empty() && !reader.is_inside_message());
    });
    assert!(peak <= 126, "{peak}");
    // Creating a reader allocates nothing.
    let ((), again) = peak_bytes(|| drop(FrameReader::new()));
    assert_eq!(again, 0);
}

#[test]
fn announced_frame_length_reserves_bounded_memory() {
    let limits = FrameLimits { message_bytes_max: 1 << 30, ..LIMITS };
    let mut stream = vec![FINAL | TEXT, 0x80 | 127];
    stream.extend_from_slice(&(1_u64 << 30).to_be_bytes());
    stream.extend_from_slice(b"keysbytes");
    let mut reader = FrameReader::new();
    let ((), peak) = peak_bytes(|| {
        let mut from = 0;
        let next = reader.next(&mut stream, &mut from, &limits, Vec::new);
        assert_eq!(next, FrameEvent::NeedMore);
    });
    assert!(peak <= 70_000, "{peak}");
    assert!(reader.is_inside_message());
    assert_eq!(reader.held_bytes(), 5);
}
