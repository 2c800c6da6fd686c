//! Ends: of sockets, of listeners, of the ring.

use std::io::{Read, Write};
use std::net::TcpStream;

use corelane::engine::ring::{Completion, Operation, Patience, Ring, RingOptions, Source};

use super::bench::{Bench, dial, pattern, read, write};

pub(super) fn options() -> RingOptions {
    super::small()
}

pub(super) fn a_closed_socket_brings_its_send_and_then_its_end<R: Ring>(mut bench: Bench<R>) {
    let (mut client, socket) = bench.connected();
    let bytes = pattern(32 << 20);
    bench.send(socket, &bytes);
    // The client does not read, so that the send cannot be over.
    bench.settle();
    assert!(!bench.has_told_of(socket));
    write(&mut client, b"too late to be read");
    bench.submit(Operation::Close(socket));
    bench.await_one(|told| match told {
        Completion::Sent { socket: of, buffer, result } if *of == socket => {
            // Empty where it was sent without a copy: the kernel has it still.
            assert!(buffer.len() == bytes.len() || buffer.is_empty());
            assert!(!matches!(result, Ok(count) if *count >= bytes.len()));
            Some(())
        }
        Completion::Closed { .. } => panic!("closed before the send came back"),
        _ => None,
    });
    bench.await_closed(socket);
    bench.settle();
    assert!(!bench.has_told_of(socket), "told after the end: {:?}", bench.told);
    let mut rest = Vec::new();
    // The end or a reset: the connection is gone for the client as well.
    client.read_to_end(&mut rest).ok();
    assert!(rest.len() < bytes.len());
}

pub(super) fn bytes_that_nobody_reaped_are_dropped_by_a_close<R: Ring>(mut bench: Bench<R>) {
    let (_, address) = bench.listen();
    // More rounds than there are buffers: a close that leaks one would run out of them.
    for _ in 0..40 {
        let (mut client, socket) = bench.pair(address);
        bench.submit(Operation::Receive(socket));
        bench.ring.park(Patience::None);
        write(&mut client, b"unheard");
        bench.ring.park(Patience::For(super::bench::PATIENCE));
        bench.submit(Operation::Close(socket));
        bench.await_closed(socket);
        assert!(!bench.has_told_of(socket), "told after the close: {:?}", bench.told);
    }
    let (mut client, socket) = bench.pair(address);
    bench.submit(Operation::Receive(socket));
    write(&mut client, b"heard");
    assert_eq!(bench.await_bytes(socket, 5), b"heard");
}

pub(super) fn a_name_is_free_again_after_its_end<R: Ring>(mut bench: Bench<R>) {
    let (_, address) = bench.listen();
    let highest = bench.pair(address).1.0 + options().sockets_max;
    for round in 0..200_u32 {
        let (mut client, socket) = bench.pair(address);
        assert!(socket.0 <= highest, "names are dense");
        bench.submit(Operation::Receive(socket));
        let line = round.to_le_bytes();
        write(&mut client, &line);
        assert_eq!(bench.await_bytes(socket, 4), line, "bytes of an earlier bearer");
        bench.close(socket);
    }
}

pub(super) fn every_socket_of_a_crowd_is_closed_once<R: Ring>(mut bench: Bench<R>) {
    let (_, address) = bench.listen();
    let clients: Vec<TcpStream> = (0..50).map(|_| dial(address)).collect();
    let sockets: Vec<_> = clients.iter().map(|_| bench.await_accepted()).collect();
    for &socket in &sockets {
        bench.submit(Operation::Receive(socket));
    }
    bench.turn(Patience::None);
    drop(clients);
    for &socket in &sockets {
        bench.await_ended(socket).unwrap();
        bench.submit(Operation::Close(socket));
    }
    for &socket in &sockets {
        bench.await_closed(socket);
    }
    bench.settle();
    assert!(bench.told.is_empty(), "{:?}", bench.told);
}

pub(super) fn a_closed_listener_refuses_connections<R: Ring>(mut bench: Bench<R>) {
    let (listener, address) = bench.listen();
    let (mut client, socket) = bench.pair(address);
    bench.submit(Operation::CloseListener(listener));
    bench.settle();
    assert!(TcpStream::connect(address).is_err());
    // What it accepted before lives on.
    bench.send(socket, b"still here");
    bench.await_sent(socket).1.unwrap();
    assert_eq!(read(&mut client, 10), b"still here");
}

pub(super) fn a_dropped_ring_closes_its_sockets<R: Ring>(mut bench: Bench<R>) {
    let (mut client, _) = bench.connected();
    bench.turn(Patience::None);
    let waker = bench.ring.waker();
    drop(bench);
    assert!(!is_waiting(read_rest(&mut client).0));
    // A letter to a ring that is gone goes nowhere.
    waker.wake();
}

pub(super) fn a_ring_dropped_in_the_middle_of_everything_ends_it<R: Ring>(mut bench: Bench<R>) {
    let (_, address) = bench.listen();
    let (mut sending, socket) = bench.pair(address);
    bench.submit(Operation::Receive(socket));
    bench.send(socket, &pattern(32 << 20));
    let (reader, mut writer) = std::io::pipe().unwrap();
    let pipe = bench.adopt(Source::Pipe(reader.into()));
    bench.submit(Operation::Receive(pipe));
    bench.settle();
    // Queued and never submitted.
    bench.submit(Operation::Pause(socket));
    let waker = bench.ring.waker();
    drop(bench);
    // Nothing of the ring is left, though somebody can still wake it.
    assert_eq!(writer.write(b"nobody reads").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    let (error, bytes) = read_rest(&mut sending);
    assert!(!is_waiting(error) && bytes.len() < 32 << 20);
    assert!(TcpStream::connect(address).is_err());
    waker.wake();
}

/// What is left to read, and how the reading ended.
fn read_rest(client: &mut TcpStream) -> (Option<std::io::Error>, Vec<u8>) {
    let mut rest = Vec::new();
    (client.read_to_end(&mut rest).err(), rest)
}

/// Whether a reading ended because it had waited long enough: the connection is still there.
fn is_waiting(error: Option<std::io::Error>) -> bool {
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}
