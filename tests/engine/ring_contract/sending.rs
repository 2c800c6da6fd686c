//! Bytes out.

use std::io::Read;
use std::net::{Shutdown, TcpStream};

use corelane::engine::ring::{Completion, Operation, Patience, Ring, RingOptions};

use super::bench::{Bench, dial, pattern, read, reset, write};

pub(super) fn options() -> RingOptions {
    super::small()
}

pub(super) fn a_send_begins_where_it_is_told_to<R: Ring>(mut bench: Bench<R>) {
    let (mut client, socket) = bench.connected();
    let buffer = b"already sent, not yet sent".to_vec();
    bench.submit(Operation::Send { socket, buffer, from: 14 });
    let (buffer, result) = bench.await_sent(socket);
    assert_eq!(buffer, b"already sent, not yet sent", "the buffer comes back unchanged");
    assert_eq!(result.unwrap(), 12);
    assert_eq!(read(&mut client, 12), b"not yet sent");
}

pub(super) fn an_empty_send_is_answered<R: Ring>(mut bench: Bench<R>) {
    let (mut client, socket) = bench.connected();
    bench.submit(Operation::Send { socket, buffer: b"all".to_vec(), from: 3 });
    assert_eq!(bench.await_sent(socket).1.unwrap(), 0);
    bench.send(socket, b"next");
    assert_eq!(bench.await_sent(socket).1.unwrap(), 4);
    assert_eq!(read(&mut client, 4), b"next");
}

pub(super) fn a_large_send_arrives_whole_at_a_slow_reader<R: Ring>(mut bench: Bench<R>) {
    let (mut client, socket) = bench.connected();
    let bytes = pattern(16 << 20);
    bench.send(socket, &bytes);
    bench.settle();
    assert!(!bench.has_told_of(socket), "the kernel does not hold that much");
    let mut arrived = Vec::with_capacity(bytes.len());
    let mut piece = vec![0; 100_000];
    let mut sent = 0;
    while arrived.len() < bytes.len() {
        let is_behind = arrived.len() >= sent;
        let count = if is_behind { 0 } else { client.read(&mut piece).unwrap() };
        arrived.extend_from_slice(&piece[..count]);
        sent = bytes.len();
        bench.turn(Patience::None);
    }
    assert!(arrived == bytes);
    let (buffer, result) = bench.await_sent(socket);
    assert_eq!(result.unwrap(), bytes.len());
    assert!(buffer == bytes);
}

pub(super) fn a_finished_socket_still_receives<R: Ring>(mut bench: Bench<R>) {
    let (mut client, socket) = bench.connected();
    bench.send(socket, b"that was all");
    bench.await_sent(socket).1.unwrap();
    bench.submit(Operation::Finish(socket));
    bench.turn(Patience::None);
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"that was all");
    write(&mut client, b"thank you");
    assert_eq!(bench.await_bytes(socket, 9), b"thank you");
    client.shutdown(Shutdown::Write).unwrap();
    bench.await_ended(socket).unwrap();
    bench.close(socket);
}

pub(super) fn finishing_waits_for_the_send_under_way<R: Ring>(mut bench: Bench<R>) {
    let (mut client, socket) = bench.connected();
    let bytes = pattern(16 << 20);
    bench.send(socket, &bytes);
    bench.submit(Operation::Finish(socket));
    // Part of it is on its way, the rest waits for a peer that does not read yet.
    bench.settle();
    assert!(!bench.has_told_of(socket), "{:?}", bench.told);
    let reader = std::thread::spawn(move || {
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).unwrap();
        heard
    });
    assert_eq!(bench.await_sent(socket).1.unwrap(), bytes.len());
    // The half close is submitted by the next park.
    bench.turn(Patience::None);
    bench.turn(Patience::None);
    assert!(reader.join().unwrap() == bytes);
    bench.await_ended(socket).unwrap();
    bench.close(socket);
}

pub(super) fn a_close_takes_the_send_under_way_and_the_end_behind_it_back<R: Ring>(
    mut bench: Bench<R>,
) {
    let (_, address) = bench.listen();
    // An end that is left over would be the next tenant's.
    for _ in 0..3 {
        let (client, socket) = bench.pair(address);
        bench.send(socket, &pattern(16 << 20));
        bench.submit(Operation::Finish(socket));
        bench.settle();
        bench.submit(Operation::Close(socket));
        bench.await_sent(socket).1.ok();
        bench.await_closed(socket);
        drop(client);
        let (mut next, socket) = bench.pair(address);
        bench.settle();
        bench.send(socket, b"whole");
        assert_eq!(bench.await_sent(socket).1.unwrap(), 5);
        assert_eq!(read(&mut next, 5), b"whole");
        bench.close(socket);
    }
}

pub(super) fn a_send_after_the_peer_is_gone_is_answered_with_a_failure<R: Ring>(
    mut bench: Bench<R>,
) {
    let (client, socket) = bench.connected();
    bench.turn(Patience::None);
    reset(client);
    bench.await_ended(socket).unwrap_err();
    bench.send(socket, b"hello?");
    let (buffer, result) = bench.await_sent(socket);
    assert_eq!(buffer, b"hello?");
    assert!(result.is_err());
    bench.close(socket);
}

pub(super) fn requests_are_echoed_on_many_connections<R: Ring>(mut bench: Bench<R>) {
    let (_, address) = bench.listen();
    let mut clients: Vec<TcpStream> = (0..50).map(|_| dial(address)).collect();
    for round in 0..20_u8 {
        for (client, seat) in clients.iter_mut().zip(0_u8..) {
            write(client, &[round, seat, b'\n']);
        }
        let mut answered = 0;
        while answered < clients.len() {
            answered += echo(&mut bench);
        }
        for (client, seat) in clients.iter_mut().zip(0_u8..) {
            assert_eq!(read(client, 3), [round, seat, b'\n']);
        }
    }
}

/// One turn of an echo server; returns the sends that ended.
fn echo<R: Ring>(bench: &mut Bench<R>) -> usize {
    let mut sent = 0;
    bench.turn(Patience::For(super::bench::PATIENCE));
    for told in std::mem::take(&mut bench.told) {
        match told {
            Completion::Accepted { socket, .. } => bench.submit(Operation::Receive(socket)),
            Completion::Received { socket, lease } => {
                let buffer = bench.take(lease);
                bench.submit(Operation::Send { socket, buffer, from: 0 });
            }
            Completion::Sent { result, .. } => {
                assert_eq!(result.unwrap(), 3);
                sent += 1;
            }
            other => panic!("not expected: {other:?}"),
        }
    }
    sent
}
