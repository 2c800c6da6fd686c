//! How connections come about.

use std::net::{SocketAddr, TcpListener, TcpStream};

use corelane::engine::ring::{Completion, Operation, Ring, RingOptions, Socket, Source};

use super::bench::{Bench, dial, read, write};

pub(super) fn options() -> RingOptions {
    RingOptions { sockets_max: 4, accepts_in_flight: 2, ..super::small() }
}

pub(super) fn a_connection_is_accepted_with_its_peers_address<R: Ring>(mut bench: Bench<R>) {
    let (name, address) = bench.listen();
    let client = dial(address);
    bench.await_one(|told| match told {
        Completion::Accepted { listener, peer, .. } => {
            assert_eq!(*listener, name);
            assert_eq!(*peer, client.local_addr().ok());
            Some(())
        }
        _ => None,
    });
}

pub(super) fn more_connections_than_one_visit_takes_are_all_accepted<R: Ring>(mut bench: Bench<R>) {
    let (_, address) = bench.listen();
    let clients: Vec<TcpStream> = (0..4).map(|_| dial(address)).collect();
    let mut sockets: Vec<_> = clients.iter().map(|_| bench.await_accepted()).collect();
    sockets.sort();
    sockets.dedup();
    assert_eq!(sockets.len(), 4, "each has a name of its own");
}

pub(super) fn a_full_ring_says_so_and_goes_on_when_a_socket_closes<R: Ring>(mut bench: Bench<R>) {
    let (_, address) = bench.listen();
    let clients: Vec<TcpStream> = (0..4).map(|_| dial(address)).collect();
    let sockets: Vec<_> = clients.iter().map(|_| bench.await_accepted()).collect();
    let _fifth = dial(address);
    bench.await_one(|told| match told {
        Completion::AcceptFailed { .. } => Some(()),
        Completion::Accepted { .. } => panic!("there is no place for a fifth"),
        _ => None,
    });
    bench.close(sockets[2]);
    bench.close(sockets[1]);
    // The fifth may have been turned away or may have waited; a sixth has a place in any case.
    let mut sixth = dial(address);
    let expected = sixth.local_addr().ok();
    let socket = bench.await_one(|told| match told {
        Completion::Accepted { socket, peer, .. } if *peer == expected => Some(*socket),
        _ => None,
    });
    bench.send(socket, b"welcome");
    bench.await_sent(socket).1.unwrap();
    assert_eq!(read(&mut sixth, 7), b"welcome");
}

pub(super) fn a_connection_can_be_opened_from_the_ring<R: Ring>(mut bench: Bench<R>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    bench.submit(Operation::Connect { address, from: None, token: 77 });
    let socket = bench.await_one(|told| match told {
        Completion::Connected { token: 77, result } => Some(*result.as_ref().unwrap()),
        _ => None,
    });
    let (mut other, _) = server.accept().unwrap();
    bench.submit(Operation::Receive(socket));
    bench.send(socket, b"there");
    assert_eq!(bench.await_sent(socket).1.unwrap(), 5);
    assert_eq!(read(&mut other, 5), b"there");
    write(&mut other, b"and back");
    assert_eq!(bench.await_bytes(socket, 8), b"and back");
    bench.close(socket);
}

pub(super) fn a_refused_connection_is_answered_with_the_reason<R: Ring>(mut bench: Bench<R>) {
    let address = {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
        nobody.local_addr().unwrap()
    };
    // More attempts than there are places: a failed one keeps none.
    for token in 0..10 {
        bench.submit(Operation::Connect { address, from: None, token });
        bench.await_one(|told| match told {
            Completion::Connected { token: answered, result } => {
                assert_eq!(*answered, token);
                let error = result.as_ref().unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
                Some(())
            }
            _ => None,
        });
    }
}

pub(super) fn a_stream_can_be_brought_in_from_outside<R: Ring>(mut bench: Bench<R>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = dial(server.local_addr().unwrap());
    let (accepted, _) = server.accept().unwrap();
    let socket = bench.adopt(Source::Stream(accepted.into()));
    bench.submit(Operation::Receive(socket));
    write(&mut client, b"hello");
    assert_eq!(bench.await_bytes(socket, 5), b"hello");
    bench.send(socket, b"hello yourself");
    bench.await_sent(socket).1.unwrap();
    assert_eq!(read(&mut client, 14), b"hello yourself");
    bench.close(socket);
}

/// An attempt from this address of the machine; its answer.
fn connect_from<R: Ring>(
    bench: &mut Bench<R>,
    (address, from): (SocketAddr, SocketAddr),
    token: u64,
) -> std::io::Result<Socket> {
    bench.submit(Operation::Connect { address, from: Some(from), token });
    bench.await_one(|told| match told {
        Completion::Connected { token: answered, result } if *answered == token => {
            Some(super::bench::copy(result))
        }
        _ => None,
    })
}

pub(super) fn a_connection_comes_from_the_address_that_was_named<R: Ring>(mut bench: Bench<R>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    for (token, from) in [(1, "127.0.0.2:0"), (2, "127.0.0.3:0"), (3, "127.0.0.3:0")] {
        let from: SocketAddr = from.parse().unwrap();
        let socket = connect_from(&mut bench, (address, from), token).unwrap();
        let (mut other, peer) = server.accept().unwrap();
        assert_eq!(peer.ip(), from.ip());
        assert_ne!(peer.port(), 0);
        bench.submit(Operation::Receive(socket));
        bench.send(socket, b"from there");
        bench.await_sent(socket).1.unwrap();
        assert_eq!(read(&mut other, 10), b"from there");
        write(&mut other, b"back");
        assert_eq!(bench.await_bytes(socket, 4), b"back");
    }
}

pub(super) fn an_address_that_is_not_ours_fails_its_connection_alone<R: Ring>(mut bench: Bench<R>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let (mut client, socket) = bench.connected();
    // More attempts than there are places, and one of another family: none keeps its place.
    for token in 0..10 {
        let foreign: SocketAddr =
            if token == 0 { "[::1]:0" } else { "192.0.2.1:0" }.parse().unwrap();
        let error = connect_from(&mut bench, (address, foreign), token).unwrap_err();
        if token > 0 {
            assert_eq!(error.kind(), std::io::ErrorKind::AddrNotAvailable);
        }
    }
    write(&mut client, b"still here");
    assert_eq!(bench.await_bytes(socket, 10), b"still here");
    let ours = connect_from(&mut bench, (address, "127.0.0.2:0".parse().unwrap()), 10).unwrap();
    // Nobody but the last one was ever heard of at the other side.
    assert_eq!(server.accept().unwrap().1.ip().to_string(), "127.0.0.2");
    bench.close(ours);
}
