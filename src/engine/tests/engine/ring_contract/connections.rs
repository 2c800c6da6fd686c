//! Accepting and opening connections.

use std::net::{SocketAddr, TcpListener, TcpStream};

use corelane_engine::ring::{
    Completion, Operation, ParkTimeout, Ring, RingOptions, Socket, Source,
};

use super::test_ring::{TestRing, connect, read, write};

pub(super) fn options() -> RingOptions {
    RingOptions { sockets_max: 4, accepts_in_flight: 2, ..super::small() }
}

pub(super) fn accept_reports_peer_address<R: Ring>(mut bench: TestRing<R>) {
    let (name, address) = bench.listen();
    let client = connect(address);
    bench.await_completion(|completion| match completion {
        Completion::Accepted { listener, peer, .. } => {
            assert_eq!(*listener, name);
            assert_eq!(*peer, client.local_addr().ok());
            Some(())
        }
        _ => None,
    });
}

pub(super) fn connections_beyond_one_batch_are_all_accepted<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    let clients: Vec<TcpStream> = (0..4).map(|_| connect(address)).collect();
    let mut sockets: Vec<_> = clients.iter().map(|_| bench.await_accepted()).collect();
    sockets.sort();
    sockets.dedup();
    assert_eq!(sockets.len(), 4, "sockets are distinct");
}

pub(super) fn full_ring_reports_failure_and_accepts_after_close<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    let clients: Vec<TcpStream> = (0..4).map(|_| connect(address)).collect();
    let sockets: Vec<_> = clients.iter().map(|_| bench.await_accepted()).collect();
    let _fifth = connect(address);
    bench.await_completion(|completion| match completion {
        Completion::AcceptFailed { .. } => Some(()),
        Completion::Accepted { .. } => panic!("accepted over sockets_max"),
        _ => None,
    });
    bench.close(sockets[2]);
    bench.close(sockets[1]);
    // The fifth may have been refused or may have waited; the sixth is accepted in either case.
    let mut sixth = connect(address);
    let expected = sixth.local_addr().ok();
    let socket = bench.await_completion(|completion| match completion {
        Completion::Accepted { socket, peer, .. } if *peer == expected => Some(*socket),
        _ => None,
    });
    bench.send(socket, b"welcome");
    bench.await_sent(socket).1.unwrap();
    assert_eq!(read(&mut sixth, 7), b"welcome");
}

pub(super) fn connect_opens_connection<R: Ring>(mut bench: TestRing<R>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    bench.submit(Operation::Connect { address, local_address: None, keepalive: false, token: 77 });
    let socket = bench.await_completion(|completion| match completion {
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

pub(super) fn refused_connect_reports_error<R: Ring>(mut bench: TestRing<R>) {
    let address = {
        let unused = TcpListener::bind("127.0.0.1:0").unwrap();
        unused.local_addr().unwrap()
    };
    // More attempts than slots: a failed attempt frees its slot.
    for token in 0..10 {
        bench.submit(Operation::Connect { address, local_address: None, keepalive: false, token });
        bench.await_completion(|completion| match completion {
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

pub(super) fn connected_stream_can_be_registered<R: Ring>(mut bench: TestRing<R>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = connect(server.local_addr().unwrap());
    let (accepted, _) = server.accept().unwrap();
    let socket = bench.register(Source::Stream(accepted.into()));
    bench.submit(Operation::Receive(socket));
    write(&mut client, b"hello");
    assert_eq!(bench.await_bytes(socket, 5), b"hello");
    bench.send(socket, b"hello yourself");
    bench.await_sent(socket).1.unwrap();
    assert_eq!(read(&mut client, 14), b"hello yourself");
    bench.close(socket);
}

pub(super) fn registered_name_waits_until_close_is_handled<R: Ring>(mut bench: TestRing<R>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let register = |bench: &mut TestRing<R>| {
        let client = connect(server.local_addr().unwrap());
        let (accepted, _) = server.accept().unwrap();
        (client, bench.register(Source::Stream(accepted.into())))
    };
    let (_first_client, first) = register(&mut bench);
    bench.submit(Operation::Close(first));
    bench.await_closed(first);
    // A shard handles messages, which register streams, before what it has reaped.
    let (_second_client, second) = register(&mut bench);
    assert_ne!(second, first);
    bench.turn(ParkTimeout::Zero);
    let (_third_client, third) = register(&mut bench);
    assert_eq!(third, first);
}

/// Connects from the local address `from`; returns the result.
fn connect_from<R: Ring>(
    bench: &mut TestRing<R>,
    address: SocketAddr,
    from: SocketAddr,
    token: u64,
) -> std::io::Result<Socket> {
    bench.submit(Operation::Connect {
        address,
        local_address: Some(from),
        keepalive: false,
        token,
    });
    bench.await_completion(|completion| match completion {
        Completion::Connected { token: answered, result } if *answered == token => {
            Some(super::test_ring::copy_result(result))
        }
        _ => None,
    })
}

pub(super) fn connect_uses_given_source_address<R: Ring>(mut bench: TestRing<R>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    for (token, from) in [(1, "127.0.0.2:0"), (2, "127.0.0.3:0"), (3, "127.0.0.3:0")] {
        let from: SocketAddr = from.parse().unwrap();
        let socket = connect_from(&mut bench, address, from, token).unwrap();
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

pub(super) fn foreign_source_address_fails_only_its_connect<R: Ring>(mut bench: TestRing<R>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let (mut client, socket) = bench.connect_receiving();
    // More attempts than slots, one from another address family: each failure frees its slot.
    for token in 0..10 {
        let foreign: SocketAddr =
            if token == 0 { "[::1]:0" } else { "192.0.2.1:0" }.parse().unwrap();
        let error = connect_from(&mut bench, address, foreign, token).unwrap_err();
        if token > 0 {
            assert_eq!(error.kind(), std::io::ErrorKind::AddrNotAvailable);
        }
    }
    write(&mut client, b"still here");
    assert_eq!(bench.await_bytes(socket, 10), b"still here");
    let ours = connect_from(&mut bench, address, "127.0.0.2:0".parse().unwrap(), 10).unwrap();
    // The server has seen only the last attempt.
    assert_eq!(server.accept().unwrap().1.ip().to_string(), "127.0.0.2");
    bench.close(ours);
}
