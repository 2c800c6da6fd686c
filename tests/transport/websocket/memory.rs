//! What frames cost in memory: nothing for a message that comes whole, the buffers of a pool for
//! others.

use corelane::transport::websocket::limits::FrameLimits;
use corelane::transport::websocket::reader::{FrameReader, Next};
use corelane::transport::websocket::writer;

use super::{CONTINUATION, FINAL, LIMITS, PING, TEXT, frame};
use crate::counting::{allocations, peak_bytes};

/// Reads an arrival to its end with buffers of a pool; says how many messages it had.
fn drain(reader: &mut FrameReader, arrival: &mut [u8], pool: &mut Vec<Vec<u8>>) -> usize {
    let (mut from, mut count) = (0, 0);
    loop {
        match reader.next(arrival, &mut from, &LIMITS, || pool.pop().unwrap_or_default()) {
            Next::Inside { start, end, .. } => {
                assert!(start <= end && end <= from);
                count += 1;
            }
            Next::Assembled { .. } => {
                let (mut message, _) = reader.take();
                message.clear();
                pool.push(message);
                count += 1;
            }
            Next::NeedMore => return count,
            next => panic!("{next:?}"),
        }
    }
}

#[test]
fn a_message_that_comes_whole_is_read_where_it_lies_without_memory() {
    let message = "m".repeat(200);
    let mut arrival = frame(FINAL | TEXT, message.as_str()).repeat(3);
    let mut reader = FrameReader::new();
    let spare = || -> Vec<u8> { panic!("nothing has to be kept") };
    let (mut from, mut read) = (0, 0);
    let allocated = allocations(|| {
        while let Next::Inside { start, end, is_compressed } =
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
fn messages_in_pieces_take_buffers_of_the_pool_and_no_others() {
    let whole = frame(FINAL | TEXT, "m".repeat(300));
    let fragments =
        [frame(TEXT, "a".repeat(90)), frame(FINAL | CONTINUATION, "b".repeat(90))].concat();
    let stream = [whole, fragments].concat();
    let mut reader = FrameReader::new();
    let mut pool = Vec::with_capacity(4);
    let mut turn = |cut: usize| {
        let mut arrival = stream.clone();
        let (start, end) = arrival.split_at_mut(cut);
        allocations(|| {
            let read = drain(&mut reader, start, &mut pool) + drain(&mut reader, end, &mut pool);
            assert_eq!(read, 2, "cut at {cut}");
        })
    };
    turn(200);
    for cut in 1..stream.len() {
        assert_eq!(turn(cut), 0, "cut at {cut}");
    }
}

#[test]
fn a_frame_is_written_without_memory_of_its_own() {
    let mut out = Vec::with_capacity(1 << 10);
    let allocated = allocations(|| {
        for length in [3, 125, 126, 200] {
            let mark = writer::begin(&mut out);
            out.extend(std::iter::repeat_n(b'm', length));
            writer::end(&mut out, mark);
        }
        writer::pong(&mut out, b"pong");
        writer::close(&mut out, None, "");
    });
    assert_eq!(allocated, 0);
}

#[test]
fn an_idle_reader_is_small_and_holds_nothing() {
    assert!(size_of::<FrameReader>() <= 64);
    let mut reader = FrameReader::new();
    let mut arrival = [frame(FINAL | PING, "payload"), frame(FINAL | TEXT, "{}")].concat();
    let ((), peak) = peak_bytes(|| {
        let mut from = 0;
        assert_eq!(reader.next(&mut arrival, &mut from, &LIMITS, Vec::new), Next::Ping);
        assert_eq!(reader.control(), b"payload");
        let next = reader.next(&mut arrival, &mut from, &LIMITS, Vec::new);
        assert!(matches!(next, Next::Inside { .. }));
        assert!(reader.control().is_empty() && !reader.is_inside_message());
    });
    assert!(peak <= 126, "{peak}");
    // What has been let go of costs nothing: another ping takes as much as the first.
    let ((), again) = peak_bytes(|| drop(FrameReader::new()));
    assert_eq!(again, 0);
}

#[test]
fn a_peer_that_only_says_that_it_will_send_much_gets_little_for_it() {
    let limits = FrameLimits { message_bytes_max: 1 << 30, ..LIMITS };
    let mut stream = vec![FINAL | TEXT, 0x80 | 127];
    stream.extend_from_slice(&(1_u64 << 30).to_be_bytes());
    stream.extend_from_slice(b"keysbytes");
    let mut reader = FrameReader::new();
    let ((), peak) = peak_bytes(|| {
        let mut from = 0;
        let next = reader.next(&mut stream, &mut from, &limits, Vec::new);
        assert_eq!(next, Next::NeedMore);
    });
    assert!(peak <= 70_000, "{peak}");
    assert!(reader.is_inside_message());
    assert_eq!(reader.held_bytes(), 5);
    assert!(reader.give_up().is_empty());
    assert!(!reader.is_inside_message());
}
