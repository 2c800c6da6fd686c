//! Closing sockets, listeners and rings.

use std::io::{Read, Write};
use std::net::TcpStream;

use corelane_engine::ring::{Completion, Operation, ParkTimeout, Ring, RingOptions, Source};

use super::test_ring::{TestRing, connect, pattern, read, write};

pub(super) fn options() -> RingOptions {
    super::small()
}

pub(super) fn close_completes_send_before_closed<R: Ring>(mut bench: TestRing<R>) {
    let (mut client, socket) = bench.connect_receiving();
    let bytes = pattern(32 << 20);
    bench.send(socket, &bytes);
    // The client does not read, so the send cannot complete.
    bench.run_until_idle();
    assert!(!bench.has_completion_of(socket));
    write(&mut client, b"too late to be read");
    bench.submit(Operation::Close(socket));
    bench.await_completion(|completion| match completion {
        Completion::Sent { socket: of, buffer, result } if *of == socket => {
            // Empty after a zero-copy send, whose buffer the kernel still holds.
            assert!(buffer.len() == bytes.len() || buffer.is_empty());
            assert!(!matches!(result, Ok(count) if *count >= bytes.len()));
            Some(())
        }
        Completion::Closed { .. } => panic!("closed before the send completed"),
        _ => None,
    });
    bench.await_closed(socket);
    bench.run_until_idle();
    assert!(!bench.has_completion_of(socket), "completion after close: {:?}", bench.completions);
    let mut rest = Vec::new();
    // End of stream or reset: the connection is closed for the client too.
    client.read_to_end(&mut rest).ok();
    assert!(rest.len() < bytes.len());
}

pub(super) fn close_drops_unreaped_bytes<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    // More rounds than buffers: a leaked buffer would exhaust them.
    for _ in 0..40 {
        let (mut client, socket) = bench.connect(address);
        bench.submit(Operation::Receive(socket));
        bench.ring.park(ParkTimeout::Zero);
        write(&mut client, b"unheard");
        bench.ring.park(ParkTimeout::After(super::test_ring::TIMEOUT));
        bench.submit(Operation::Close(socket));
        bench.await_closed(socket);
        assert!(
            !bench.has_completion_of(socket),
            "completion after close: {:?}",
            bench.completions
        );
    }
    let (mut client, socket) = bench.connect(address);
    bench.submit(Operation::Receive(socket));
    write(&mut client, b"hello");
    assert_eq!(bench.await_bytes(socket, 5), b"hello");
}

pub(super) fn socket_number_is_reusable_after_close<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    let highest = bench.connect(address).1.0 + options().sockets_max;
    for round in 0..200_u32 {
        let (mut client, socket) = bench.connect(address);
        assert!(socket.0 <= highest, "socket numbers are dense");
        bench.submit(Operation::Receive(socket));
        let line = round.to_le_bytes();
        write(&mut client, &line);
        assert_eq!(bench.await_bytes(socket, 4), line, "bytes of an earlier connection");
        bench.close(socket);
    }
}

pub(super) fn many_sockets_are_each_closed_once<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    let clients: Vec<TcpStream> = (0..50).map(|_| connect(address)).collect();
    let sockets: Vec<_> = clients.iter().map(|_| bench.await_accepted()).collect();
    for &socket in &sockets {
        bench.submit(Operation::Receive(socket));
    }
    bench.turn(ParkTimeout::Zero);
    drop(clients);
    for &socket in &sockets {
        bench.await_end_of_stream(socket).unwrap();
        bench.submit(Operation::Close(socket));
    }
    for &socket in &sockets {
        bench.await_closed(socket);
    }
    bench.run_until_idle();
    assert!(bench.completions.is_empty(), "{:?}", bench.completions);
}

pub(super) fn socket_with_unacknowledged_send_is_closed_once<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    // Nothing else of the socket is in flight: it does not receive. More bytes than the client's
    // window, fewer than the socket's send buffer.
    let (_client, socket) = bench.connect(address);
    bench.send(socket, &pattern(256 << 10));
    bench.run_until_idle();
    bench.submit(Operation::Close(socket));
    bench.run_until_idle();
    let is_close = |completion: &&Completion| matches!(completion, Completion::Closed { .. });
    let closes = bench.completions.iter().filter(is_close).count();
    assert_eq!(closes, 1);
}

pub(super) fn reset_with_unread_output_fails_reads_of_peer<R: Ring>(mut bench: TestRing<R>) {
    if !can_reset(&bench) {
        return;
    }
    let (mut client, socket) = bench.connect_receiving();
    let bytes = pattern(32 << 20);
    bench.send(socket, &bytes);
    // The client does not read, so the send cannot complete.
    bench.run_until_idle();
    assert!(!bench.has_completion_of(socket));
    bench.submit(Operation::Reset(socket));
    let (buffer, result) = bench.await_sent(socket);
    // Empty after a zero-copy send, whose buffer the kernel still holds.
    assert!(buffer.len() == bytes.len() || buffer.is_empty());
    assert!(!matches!(result, Ok(count) if count >= bytes.len()));
    bench.await_closed(socket);
    bench.run_until_idle();
    let (error, rest) = read_rest(&mut client);
    assert_eq!(error.map(|it| it.kind()), Some(std::io::ErrorKind::ConnectionReset));
    assert!(rest.len() < bytes.len());
}

pub(super) fn reset_of_idle_connection_fails_reads_of_peer<R: Ring>(mut bench: TestRing<R>) {
    if !can_reset(&bench) {
        return;
    }
    let (_, address) = bench.listen();
    // More rounds than slots and buffers.
    for _ in 0..80 {
        let (mut client, socket) = bench.connect(address);
        bench.submit(Operation::Receive(socket));
        bench.send(socket, b"read before the reset");
        bench.await_sent(socket).1.unwrap();
        bench.submit(Operation::Reset(socket));
        bench.await_closed(socket);
        assert!(!bench.has_completion_of(socket), "{:?}", bench.completions);
        let (error, bytes) = read_rest(&mut client);
        assert_eq!(error.map(|it| it.kind()), Some(std::io::ErrorKind::ConnectionReset));
        assert_eq!(bytes, b"read before the reset");
    }
}

pub(super) fn closed_listener_refuses_connections<R: Ring>(mut bench: TestRing<R>) {
    let (listener, address) = bench.listen();
    let (mut client, socket) = bench.connect(address);
    bench.submit(Operation::CloseListener(listener));
    bench.run_until_idle();
    assert!(TcpStream::connect(address).is_err());
    // Accepted connections stay open.
    bench.send(socket, b"still here");
    bench.await_sent(socket).1.unwrap();
    assert_eq!(read(&mut client, 10), b"still here");
}

pub(super) fn dropped_ring_closes_its_sockets<R: Ring>(mut bench: TestRing<R>) {
    let (mut client, _) = bench.connect_receiving();
    bench.turn(ParkTimeout::Zero);
    let waker = bench.ring.waker();
    drop(bench);
    assert!(!is_timeout(read_rest(&mut client).0));
    // A wake-up of a dropped ring has no effect.
    waker.wake();
}

pub(super) fn ring_dropped_with_operations_in_flight_closes_all<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    let (mut sending, socket) = bench.connect(address);
    bench.submit(Operation::Receive(socket));
    bench.send(socket, &pattern(32 << 20));
    let (reader, mut writer) = std::io::pipe().unwrap();
    let pipe = bench.register(Source::Pipe(reader.into()));
    bench.submit(Operation::Receive(pipe));
    bench.run_until_idle();
    // Queued but not submitted.
    bench.submit(Operation::StopReceive(socket));
    let waker = bench.ring.waker();
    drop(bench);
    // The ring has released everything although its waker still exists.
    assert_eq!(writer.write(b"unread").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    let (error, bytes) = read_rest(&mut sending);
    assert!(!is_timeout(error) && bytes.len() < 32 << 20);
    assert!(TcpStream::connect(address).is_err());
    waker.wake();
}

/// Returns whether this kernel certainly sets the options of direct descriptors (6.7): it has what
/// came with 6.11, or the ring needs no direct descriptors.
fn can_reset<R: Ring>(bench: &TestRing<R>) -> bool {
    !bench.ring.describe().contains("-bind")
}

/// Reads to the end; returns the error that ended it, and the bytes.
fn read_rest(client: &mut TcpStream) -> (Option<std::io::Error>, Vec<u8>) {
    let mut rest = Vec::new();
    (client.read_to_end(&mut rest).err(), rest)
}

/// Returns whether a read timed out, so that the connection is still open.
fn is_timeout(error: Option<std::io::Error>) -> bool {
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}
