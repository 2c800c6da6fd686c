//! Receiving: order, pausing, end of stream, exhausted buffers.

use std::net::Shutdown;
use std::time::Duration;

use corelane_engine::ring::{
    Completion, Operation, PADDING, ParkTimeout, ReceiveBuffer, Ring, RingOptions,
};

use super::test_ring::{TestRing, pattern, read, reset, write};

pub(super) fn options() -> RingOptions {
    super::small()
}

pub(super) fn bytes_arrive_complete_and_in_order<R: Ring>(mut bench: TestRing<R>) {
    let (mut client, socket) = bench.connect_receiving();
    let bytes = pattern(3_000_000);
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || {
        for (piece, length) in sent.chunks(10_007).zip((1..).cycle()) {
            let (first, second) = piece.split_at(length % piece.len());
            write(&mut client, first);
            write(&mut client, second);
        }
        client
    });
    assert!(bench.await_bytes(socket, bytes.len()) == bytes);
    drop(writer.join().unwrap());
    bench.await_end_of_stream(socket).unwrap();
}

pub(super) fn bytes_arriving_with_end_of_stream_are_received<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    let (mut client, socket) = bench.connect(address);
    write(&mut client, b"last words");
    drop(client);
    bench.run_until_idle();
    bench.submit(Operation::Receive(socket));
    assert_eq!(bench.await_bytes(socket, 10), b"last words");
    bench.await_end_of_stream(socket).unwrap();
}

pub(super) fn bytes_wait_for_first_receive<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    let (mut client, socket) = bench.connect(address);
    write(&mut client, b"early");
    bench.run_until_idle();
    assert!(!bench.has_completion_of(socket));
    bench.submit(Operation::Receive(socket));
    assert_eq!(bench.await_bytes(socket, 5), b"early");
}

pub(super) fn stopped_receive_loses_no_bytes<R: Ring>(mut bench: TestRing<R>) {
    let (mut client, socket) = bench.connect_receiving();
    let mut expected = Vec::new();
    let mut arrived = Vec::new();
    for round in 0..20_u8 {
        let line = [round; 100];
        write(&mut client, &line);
        expected.extend_from_slice(&line);
        bench.submit(Operation::StopReceive(socket));
        bench.turn(ParkTimeout::Zero);
        write(&mut client, &line);
        expected.extend_from_slice(&line);
        bench.run_until_idle();
        if round == 19 {
            drop(client);
            break;
        }
        bench.submit(Operation::Receive(socket));
        bench.turn(ParkTimeout::Zero);
    }
    bench.run_until_idle();
    let is_over = |completion: &Completion| matches!(completion, Completion::EndOfStream { .. });
    assert!(!bench.completions.iter().any(is_over), "a stopped receive reports no end of stream");
    bench.submit(Operation::Receive(socket));
    while arrived.len() < expected.len() {
        let buffer = bench.await_received(socket);
        arrived.extend(bench.take_bytes(buffer));
    }
    assert_eq!(arrived, expected);
    bench.await_end_of_stream(socket).unwrap();
}

pub(super) fn end_of_stream_is_reported_once_and_sends_continue<R: Ring>(mut bench: TestRing<R>) {
    let (mut client, socket) = bench.connect_receiving();
    write(&mut client, b"last");
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(bench.await_bytes(socket, 4), b"last");
    bench.await_end_of_stream(socket).unwrap();
    bench.submit(Operation::Receive(socket));
    bench.run_until_idle();
    assert!(!bench.has_completion_of(socket), "second end of stream: {:?}", bench.completions);
    bench.send(socket, b"the answer");
    assert_eq!(bench.await_sent(socket).1.unwrap(), 10);
    assert_eq!(read(&mut client, 10), b"the answer");
    bench.close(socket);
}

pub(super) fn reset_is_reported_as_error<R: Ring>(mut bench: TestRing<R>) {
    let (client, socket) = bench.connect_receiving();
    bench.run_until_idle();
    reset(client);
    let error = bench.await_end_of_stream(socket).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    bench.close(socket);
}

/// Sends more than the buffers hold and takes every receive buffer.
fn exhaust_buffers<R: Ring>(bench: &mut TestRing<R>) -> ExhaustedBuffers {
    let (_, address) = bench.listen();
    let (mut client, socket) = bench.connect(address);
    let (other_client, other) = bench.connect(address);
    bench.submit(Operation::Receive(socket));
    bench.submit(Operation::Receive(other));
    let bytes = pattern(40 * 1024);
    write(&mut client, &bytes);
    let leases: Vec<ReceiveBuffer> =
        (0..options().receive_buffers).map(|_| bench.await_received(socket)).collect();
    bench.run_until_idle();
    assert!(bench.completions.is_empty(), "more buffers than configured: {:?}", bench.completions);
    ExhaustedBuffers { client, socket, other_client, other, bytes, buffers: leases }
}

struct ExhaustedBuffers {
    client: std::net::TcpStream,
    socket: corelane_engine::ring::Socket,
    other_client: std::net::TcpStream,
    other: corelane_engine::ring::Socket,
    bytes: Vec<u8>,
    buffers: Vec<ReceiveBuffer>,
}

pub(super) fn exhausted_receive_buffers_lose_no_bytes<R: Ring>(mut bench: TestRing<R>) {
    let mut exhausted = exhaust_buffers(&mut bench);
    write(&mut exhausted.other_client, b"me too");
    bench.run_until_idle();
    assert!(bench.completions.is_empty(), "no buffer is free");
    assert!(bench.ring.exhaustion().receive_buffers > 0);
    bench.send(exhausted.other, b"sending goes on");
    bench.await_sent(exhausted.other).1.unwrap();
    assert_eq!(read(&mut exhausted.other_client, 15), b"sending goes on");
    let mut arrived = Vec::new();
    for buffer in exhausted.buffers {
        arrived.extend(bench.take_bytes(buffer));
    }
    let rest = exhausted.bytes.len() - arrived.len();
    arrived.extend(bench.await_bytes(exhausted.socket, rest));
    assert!(arrived == exhausted.bytes);
    assert_eq!(bench.await_bytes(exhausted.other, 6), b"me too");
    drop(exhausted.client);
    bench.await_end_of_stream(exhausted.socket).unwrap();
}

pub(super) fn exhausted_receive_buffers_do_not_spin_the_ring<R: Ring>(mut bench: TestRing<R>) {
    let exhausted = exhaust_buffers(&mut bench);
    let before = bench.now;
    bench.turn(ParkTimeout::After(Duration::from_millis(60)));
    assert!(bench.now.since(before) >= Duration::from_millis(55), "the ring spins");
    // A socket that waits for a buffer can be stopped and closed.
    bench.submit(Operation::StopReceive(exhausted.socket));
    bench.turn(ParkTimeout::Zero);
    bench.close(exhausted.socket);
    bench.close(exhausted.other);
    for buffer in exhausted.buffers {
        bench.ring.release(buffer);
    }
    bench.run_until_idle();
    assert!(bench.completions.is_empty(), "{:?}", bench.completions);
}

pub(super) fn padding_behind_received_bytes_is_writable<R: Ring>(mut bench: TestRing<R>) {
    let (mut client, socket) = bench.connect_receiving();
    for round in 0..40_u8 {
        write(&mut client, &[round; 1024]);
        let buffer = bench.await_received(socket);
        let length = buffer.len as usize;
        let bytes = bench.ring.bytes(&buffer);
        assert!(bytes[..length].iter().all(|&byte| byte == round));
        bytes[..length + PADDING].fill(0xEE);
        bench.ring.release(buffer);
        let rest = 1024 - length;
        assert_eq!(bench.await_bytes(socket, rest), vec![round; rest]);
    }
}

pub(super) fn urgent_data_does_not_spin_the_ring<R: Ring>(mut bench: TestRing<R>) {
    let (mut client, socket) = bench.connect_receiving();
    write(&mut client, b"a");
    socket2::SockRef::from(&client).send_out_of_band(b"!").unwrap();
    assert_eq!(bench.await_received(socket).len, 1);
    bench.run_until_idle();
    let before = bench.now;
    bench.turn(ParkTimeout::After(Duration::from_millis(60)));
    assert!(bench.now.since(before) >= Duration::from_millis(55), "the ring spins");
}
