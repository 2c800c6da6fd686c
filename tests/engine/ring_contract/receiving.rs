//! Bytes in.

use std::net::Shutdown;
use std::time::Duration;

use corelane::engine::ring::{Completion, Lease, Operation, PADDING, Patience, Ring, RingOptions};

use super::bench::{Bench, pattern, read, reset, write};

pub(super) fn options() -> RingOptions {
    super::small()
}

pub(super) fn bytes_arrive_whole_and_in_order<R: Ring>(mut bench: Bench<R>) {
    let (mut client, socket) = bench.connected();
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
    bench.await_ended(socket).unwrap();
}

pub(super) fn bytes_and_the_end_that_came_together_are_both_told<R: Ring>(mut bench: Bench<R>) {
    let (_, address) = bench.listen();
    let (mut client, socket) = bench.pair(address);
    write(&mut client, b"last words");
    drop(client);
    bench.settle();
    bench.submit(Operation::Receive(socket));
    assert_eq!(bench.await_bytes(socket, 10), b"last words");
    bench.await_ended(socket).unwrap();
}

pub(super) fn a_socket_receives_nothing_before_it_is_asked_to<R: Ring>(mut bench: Bench<R>) {
    let (_, address) = bench.listen();
    let (mut client, socket) = bench.pair(address);
    write(&mut client, b"early");
    bench.settle();
    assert!(!bench.has_told_of(socket));
    bench.submit(Operation::Receive(socket));
    assert_eq!(bench.await_bytes(socket, 5), b"early");
}

pub(super) fn a_paused_socket_loses_nothing<R: Ring>(mut bench: Bench<R>) {
    let (mut client, socket) = bench.connected();
    let mut expected = Vec::new();
    let mut arrived = Vec::new();
    for round in 0..20_u8 {
        let line = [round; 100];
        write(&mut client, &line);
        expected.extend_from_slice(&line);
        bench.submit(Operation::Pause(socket));
        bench.turn(Patience::None);
        write(&mut client, &line);
        expected.extend_from_slice(&line);
        bench.settle();
        if round == 19 {
            drop(client);
            break;
        }
        bench.submit(Operation::Receive(socket));
        bench.turn(Patience::None);
    }
    bench.settle();
    let is_over = |told: &Completion| matches!(told, Completion::Ended { .. });
    assert!(!bench.told.iter().any(is_over), "a paused socket does not tell its end");
    bench.submit(Operation::Receive(socket));
    while arrived.len() < expected.len() {
        let lease = bench.await_lease(socket);
        arrived.extend(bench.take(lease));
    }
    assert_eq!(arrived, expected);
    bench.await_ended(socket).unwrap();
}

pub(super) fn the_end_of_the_peer_is_told_once_and_sending_goes_on<R: Ring>(mut bench: Bench<R>) {
    let (mut client, socket) = bench.connected();
    write(&mut client, b"last");
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(bench.await_bytes(socket, 4), b"last");
    bench.await_ended(socket).unwrap();
    bench.submit(Operation::Receive(socket));
    bench.settle();
    assert!(!bench.has_told_of(socket), "told twice: {:?}", bench.told);
    bench.send(socket, b"the answer");
    assert_eq!(bench.await_sent(socket).1.unwrap(), 10);
    assert_eq!(read(&mut client, 10), b"the answer");
    bench.close(socket);
}

pub(super) fn a_reset_is_told_as_a_failure<R: Ring>(mut bench: Bench<R>) {
    let (client, socket) = bench.connected();
    bench.settle();
    reset(client);
    let error = bench.await_ended(socket).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    bench.close(socket);
}

/// Has one client send more than the buffers hold, and takes every lease there is.
fn exhaust<R: Ring>(bench: &mut Bench<R>) -> Exhausted {
    let (_, address) = bench.listen();
    let (mut client, socket) = bench.pair(address);
    let (other_client, other) = bench.pair(address);
    bench.submit(Operation::Receive(socket));
    bench.submit(Operation::Receive(other));
    let bytes = pattern(40 * 1024);
    write(&mut client, &bytes);
    let leases: Vec<Lease> =
        (0..options().receive_buffers).map(|_| bench.await_lease(socket)).collect();
    bench.settle();
    assert!(bench.told.is_empty(), "more leases than buffers: {:?}", bench.told);
    Exhausted { client, socket, other_client, other, bytes, leases }
}

struct Exhausted {
    client: std::net::TcpStream,
    socket: corelane::engine::ring::Socket,
    other_client: std::net::TcpStream,
    other: corelane::engine::ring::Socket,
    bytes: Vec<u8>,
    leases: Vec<Lease>,
}

pub(super) fn an_exhausted_set_of_buffers_loses_nothing<R: Ring>(mut bench: Bench<R>) {
    let mut exhausted = exhaust(&mut bench);
    write(&mut exhausted.other_client, b"me too");
    bench.settle();
    assert!(bench.told.is_empty(), "no buffer, no bytes");
    assert!(bench.ring.shortages().receive_buffers > 0);
    bench.send(exhausted.other, b"sending goes on");
    bench.await_sent(exhausted.other).1.unwrap();
    assert_eq!(read(&mut exhausted.other_client, 15), b"sending goes on");
    let mut arrived = Vec::new();
    for lease in exhausted.leases {
        arrived.extend(bench.take(lease));
    }
    let rest = exhausted.bytes.len() - arrived.len();
    arrived.extend(bench.await_bytes(exhausted.socket, rest));
    assert!(arrived == exhausted.bytes);
    assert_eq!(bench.await_bytes(exhausted.other, 6), b"me too");
    drop(exhausted.client);
    bench.await_ended(exhausted.socket).unwrap();
}

pub(super) fn an_exhausted_set_of_buffers_lets_the_ring_sleep<R: Ring>(mut bench: Bench<R>) {
    let exhausted = exhaust(&mut bench);
    let before = bench.now;
    bench.turn(Patience::For(Duration::from_millis(60)));
    assert!(bench.now.since(before) >= Duration::from_millis(55), "it spins");
    // A socket that waits for a buffer can be paused and closed like any other.
    bench.submit(Operation::Pause(exhausted.socket));
    bench.turn(Patience::None);
    bench.close(exhausted.socket);
    bench.close(exhausted.other);
    for lease in exhausted.leases {
        bench.ring.release(lease);
    }
    bench.settle();
    assert!(bench.told.is_empty(), "{:?}", bench.told);
}

pub(super) fn the_padding_behind_a_lease_may_be_written<R: Ring>(mut bench: Bench<R>) {
    let (mut client, socket) = bench.connected();
    for round in 0..40_u8 {
        write(&mut client, &[round; 1024]);
        let lease = bench.await_lease(socket);
        let length = lease.length as usize;
        let bytes = bench.ring.bytes(&lease);
        assert!(bytes[..length].iter().all(|&byte| byte == round));
        bytes[..length + PADDING].fill(0xEE);
        bench.ring.release(lease);
        let rest = 1024 - length;
        assert_eq!(bench.await_bytes(socket, rest), vec![round; rest]);
    }
}

pub(super) fn urgent_bytes_do_not_keep_the_ring_awake<R: Ring>(mut bench: Bench<R>) {
    let (mut client, socket) = bench.connected();
    write(&mut client, b"a");
    socket2::SockRef::from(&client).send_out_of_band(b"!").unwrap();
    assert_eq!(bench.await_lease(socket).length, 1);
    bench.settle();
    let before = bench.now;
    bench.turn(Patience::For(Duration::from_millis(60)));
    assert!(bench.now.since(before) >= Duration::from_millis(55), "it spins");
}
