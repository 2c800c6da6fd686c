//! Sending: partial sends, slow readers, half-close, failures.

use std::io::Read;
use std::net::{Shutdown, TcpStream};

use corelane_engine::ring::{Completion, Operation, ParkTimeout, Ring, RingOptions};

use super::test_ring::{TestRing, connect, pattern, read, reset, write};

pub(super) fn options() -> RingOptions {
    super::small()
}

pub(super) fn send_starts_at_given_offset<R: Ring>(mut bench: TestRing<R>) {
    let (mut client, socket) = bench.connect_receiving();
    let buffer = b"already sent, not yet sent".to_vec();
    bench.submit(Operation::Send { socket, buffer, offset: 14 });
    let (buffer, result) = bench.await_sent(socket);
    assert_eq!(buffer, b"already sent, not yet sent", "the buffer is returned unchanged");
    assert_eq!(result.unwrap(), 12);
    assert_eq!(read(&mut client, 12), b"not yet sent");
}

pub(super) fn empty_send_completes_with_zero<R: Ring>(mut bench: TestRing<R>) {
    let (mut client, socket) = bench.connect_receiving();
    bench.submit(Operation::Send { socket, buffer: b"all".to_vec(), offset: 3 });
    assert_eq!(bench.await_sent(socket).1.unwrap(), 0);
    bench.send(socket, b"next");
    assert_eq!(bench.await_sent(socket).1.unwrap(), 4);
    assert_eq!(read(&mut client, 4), b"next");
}

pub(super) fn large_send_completes_with_slow_reader<R: Ring>(mut bench: TestRing<R>) {
    let (mut client, socket) = bench.connect_receiving();
    let bytes = pattern(16 << 20);
    bench.send(socket, &bytes);
    bench.run_until_idle();
    assert!(!bench.has_completion_of(socket), "the kernel accepted all bytes");
    let mut arrived = Vec::with_capacity(bytes.len());
    let mut piece = vec![0; 100_000];
    let mut sent = 0;
    while arrived.len() < bytes.len() {
        let is_behind = arrived.len() >= sent;
        let count = if is_behind { 0 } else { client.read(&mut piece).unwrap() };
        arrived.extend_from_slice(&piece[..count]);
        sent = bytes.len();
        bench.turn(ParkTimeout::Zero);
    }
    assert!(arrived == bytes);
    let (buffer, result) = bench.await_sent(socket);
    assert_eq!(result.unwrap(), bytes.len());
    assert!(buffer == bytes);
}

/// The peer reads as fast as it can, and the kernel delivers each part to it at once.
pub(super) fn large_send_gives_way_to_others<R: Ring>(mut bench: TestRing<R>) {
    const PART_BYTES: usize = 1 << 20;
    let (mut client, socket) = bench.connect_receiving();
    let bytes = pattern(16 << 20);
    let length = bytes.len();
    let reader = std::thread::spawn(move || read(&mut client, length));
    bench.send(socket, &bytes);
    let mut turns = 0;
    while !bench.has_completion_of(socket) {
        bench.turn(ParkTimeout::After(super::test_ring::TIMEOUT));
        turns += 1;
    }
    assert!(turns >= length / PART_BYTES, "{turns}");
    assert_eq!(bench.await_sent(socket).1.unwrap(), length);
    assert!(reader.join().unwrap() == bytes);
    bench.close(socket);
}

pub(super) fn shutdown_write_keeps_receiving<R: Ring>(mut bench: TestRing<R>) {
    let (mut client, socket) = bench.connect_receiving();
    bench.send(socket, b"that was all");
    bench.await_sent(socket).1.unwrap();
    bench.submit(Operation::ShutdownWrite(socket));
    bench.turn(ParkTimeout::Zero);
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    assert_eq!(received, b"that was all");
    write(&mut client, b"thank you");
    assert_eq!(bench.await_bytes(socket, 9), b"thank you");
    client.shutdown(Shutdown::Write).unwrap();
    bench.await_end_of_stream(socket).unwrap();
    bench.close(socket);
}

pub(super) fn shutdown_write_waits_for_send_in_flight<R: Ring>(mut bench: TestRing<R>) {
    let (mut client, socket) = bench.connect_receiving();
    let bytes = pattern(16 << 20);
    bench.send(socket, &bytes);
    bench.submit(Operation::ShutdownWrite(socket));
    // Part of it is in flight, the rest waits for a peer that does not read yet.
    bench.run_until_idle();
    assert!(!bench.has_completion_of(socket), "{:?}", bench.completions);
    let reader = std::thread::spawn(move || {
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        received
    });
    assert_eq!(bench.await_sent(socket).1.unwrap(), bytes.len());
    // The shutdown is submitted by the next park.
    bench.turn(ParkTimeout::Zero);
    bench.turn(ParkTimeout::Zero);
    assert!(reader.join().unwrap() == bytes);
    bench.await_end_of_stream(socket).unwrap();
    bench.close(socket);
}

pub(super) fn close_cancels_send_and_pending_shutdown<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    // A leftover shutdown would hit the next connection of the same socket number.
    for _ in 0..3 {
        let (client, socket) = bench.connect(address);
        bench.send(socket, &pattern(16 << 20));
        bench.submit(Operation::ShutdownWrite(socket));
        bench.run_until_idle();
        bench.submit(Operation::Close(socket));
        bench.await_sent(socket).1.ok();
        bench.await_closed(socket);
        drop(client);
        let (mut next, socket) = bench.connect(address);
        bench.run_until_idle();
        bench.send(socket, b"whole");
        assert_eq!(bench.await_sent(socket).1.unwrap(), 5);
        assert_eq!(read(&mut next, 5), b"whole");
        bench.close(socket);
    }
}

pub(super) fn send_after_peer_reset_fails<R: Ring>(mut bench: TestRing<R>) {
    let (client, socket) = bench.connect_receiving();
    bench.turn(ParkTimeout::Zero);
    reset(client);
    bench.await_end_of_stream(socket).unwrap_err();
    bench.send(socket, b"hello?");
    let (buffer, result) = bench.await_sent(socket);
    assert_eq!(buffer, b"hello?");
    assert!(result.is_err());
    bench.close(socket);
}

pub(super) fn requests_are_echoed_on_many_connections<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    let mut clients: Vec<TcpStream> = (0..50).map(|_| connect(address)).collect();
    for round in 0..20_u8 {
        for (client, index) in clients.iter_mut().zip(0_u8..) {
            write(client, &[round, index, b'\n']);
        }
        let mut answered = 0;
        while answered < clients.len() {
            answered += echo(&mut bench);
        }
        for (client, index) in clients.iter_mut().zip(0_u8..) {
            assert_eq!(read(client, 3), [round, index, b'\n']);
        }
    }
}

/// One turn of an echo server; returns the number of completed sends.
fn echo<R: Ring>(bench: &mut TestRing<R>) -> usize {
    let mut sent = 0;
    bench.turn(ParkTimeout::After(super::test_ring::TIMEOUT));
    for completion in std::mem::take(&mut bench.completions) {
        match completion {
            Completion::Accepted { socket, .. } => bench.submit(Operation::Receive(socket)),
            Completion::Received { socket, buffer } => {
                let buffer = bench.take_bytes(buffer);
                bench.submit(Operation::Send { socket, buffer, offset: 0 });
            }
            Completion::Sent { result, .. } => {
                assert_eq!(result.unwrap(), 3);
                sent += 1;
            }
            other => panic!("unexpected: {other:?}"),
        }
    }
    sent
}
