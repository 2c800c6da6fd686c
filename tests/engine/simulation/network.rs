//! What a simulated network does when nothing goes wrong by itself.

use std::net::SocketAddr;
use std::time::Duration;

use corelane::engine::ring::sim::{Client, Faults, SimRing, World};
use corelane::engine::ring::{Completion, Lease, Operation, PADDING, Patience, Ring, Socket};

use super::{ADDRESS, LONG, small};

/// A ring in a world without faults, and what it has told.
struct Stage {
    world: World,
    ring: SimRing,
    told: Vec<Completion>,
}

impl Stage {
    fn new() -> Self {
        let world = World::with_faults(1, Faults::NONE);
        let ring = world.ring(small());
        Self { world, ring, told: Vec::new() }
    }

    fn turn(&mut self) {
        self.ring.park(Patience::For(LONG));
        self.ring.reap(&mut self.told);
    }

    /// Turns until nothing will happen any more.
    fn settle(&mut self) {
        loop {
            let before = self.world.now();
            self.turn();
            if self.world.now().since(before) >= LONG {
                return;
            }
        }
    }

    fn connected(&mut self) -> (Client, Socket) {
        let listener = self.ring.listen(ADDRESS).unwrap();
        self.ring.submit(Operation::Accept(listener));
        let client = self.world.connect(ADDRESS);
        self.settle();
        match self.told.pop() {
            Some(Completion::Accepted { listener: of, socket, peer }) => {
                assert_eq!((of, peer), (listener, Some(client.address())));
                (client, socket)
            }
            other => panic!("not accepted: {other:?}"),
        }
    }

    /// All bytes that were told, and their leases back.
    fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for told in std::mem::take(&mut self.told) {
            match told {
                Completion::Received { lease, .. } => {
                    bytes.extend(&self.ring.bytes(&lease)[..lease.length as usize]);
                    self.ring.release(lease);
                }
                other => self.told.push(other),
            }
        }
        bytes
    }

    fn send(&mut self, socket: Socket, bytes: &[u8]) {
        self.ring.submit(Operation::Send { socket, buffer: bytes.to_vec(), from: 0 });
    }
}

#[test]
fn a_question_is_answered_and_both_sides_end() {
    let mut stage = Stage::new();
    let (client, socket) = stage.connected();
    client.write(b"question");
    stage.settle();
    assert!(stage.told.is_empty(), "nothing is received before it is asked for");
    stage.ring.submit(Operation::Receive(socket));
    stage.settle();
    assert_eq!(stage.bytes(), b"question");
    stage.send(socket, b"answer");
    stage.ring.submit(Operation::Finish(socket));
    stage.settle();
    assert!(matches!(stage.told.pop(), Some(Completion::Sent { result: Ok(6), .. })));
    assert_eq!(client.heard(), b"answer");
    assert!(client.has_ended());
    client.write(b", thanks");
    client.finish();
    stage.settle();
    assert_eq!(stage.bytes(), b", thanks");
    assert!(matches!(stage.told.pop(), Some(Completion::Ended { result: Ok(()), .. })));
    stage.ring.submit(Operation::Close(socket));
    stage.settle();
    assert!(matches!(stage.told[..], [Completion::Closed { .. }]));
    assert!(stage.world.ledger().is_settled());
}

#[test]
fn a_reader_that_stops_holds_the_send_back() {
    let mut stage = Stage::new();
    let (client, socket) = stage.connected();
    client.stop_reading();
    let bytes = vec![7; 200_000];
    stage.send(socket, &bytes);
    stage.settle();
    assert!(stage.told.is_empty());
    assert_eq!(stage.world.ledger().sends_in_flight, 1);
    client.read_slowly(10_000, Duration::from_millis(1));
    stage.settle();
    assert!(matches!(stage.told.pop(), Some(Completion::Sent { result: Ok(200_000), .. })));
    assert_eq!(client.heard().len(), 200_000);
}

#[test]
fn finishing_waits_for_the_send_under_way() {
    let mut stage = Stage::new();
    let (client, socket) = stage.connected();
    client.stop_reading();
    stage.send(socket, &vec![7; 200_000]);
    stage.ring.submit(Operation::Finish(socket));
    stage.settle();
    assert!(stage.told.is_empty() && !client.has_ended());
    client.read_eagerly();
    stage.settle();
    assert!(matches!(stage.told.pop(), Some(Completion::Sent { result: Ok(200_000), .. })));
    assert_eq!(client.heard().len(), 200_000);
    assert!(client.has_ended());
}

#[test]
fn a_close_hands_the_held_send_back_and_tells_nothing_else() {
    let mut stage = Stage::new();
    let (client, socket) = stage.connected();
    stage.ring.submit(Operation::Receive(socket));
    client.stop_reading();
    stage.send(socket, &vec![7; 200_000]);
    client.write(b"never read");
    stage.turn();
    stage.ring.submit(Operation::Close(socket));
    stage.told.retain(|told| matches!(told, Completion::Sent { .. }));
    stage.settle();
    assert!(
        matches!(
            &stage.told[..],
            [Completion::Sent { buffer, result: Err(_), .. }, Completion::Closed { .. }]
                if buffer.len() == 200_000
        ),
        "{:?}",
        stage.told
    );
    stage.bytes();
    assert!(stage.world.ledger().is_settled(), "{:?}", stage.world.ledger());
}

#[test]
fn a_peer_that_is_gone_fails_the_send() {
    let mut stage = Stage::new();
    let (client, socket) = stage.connected();
    client.close();
    stage.send(socket, b"hello?");
    stage.settle();
    assert!(matches!(stage.told.pop(), Some(Completion::Sent { result: Ok(6), .. })));
    stage.send(socket, b"still there?");
    stage.settle();
    assert!(matches!(stage.told.pop(), Some(Completion::Sent { result: Err(_), .. })));
}

#[test]
fn bytes_that_find_no_buffer_wait_and_close_the_window() {
    let mut stage = Stage::new();
    let (client, socket) = stage.connected();
    stage.ring.submit(Operation::Receive(socket));
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    client.write(&bytes);
    stage.settle();
    assert_eq!(stage.told.len(), 8, "every buffer there is");
    assert!(client.unsent() > 0, "the window is closed");
    let mut arrived = stage.bytes();
    while arrived.len() < bytes.len() {
        stage.turn();
        arrived.extend(stage.bytes());
    }
    assert!(arrived == bytes);
    assert_eq!((client.unsent(), stage.world.ledger().leases_out), (0, 0));
}

#[test]
fn a_ring_without_places_accepts_when_one_is_free() {
    let mut stage = Stage::new();
    let (_first, socket) = stage.connected();
    let others: Vec<Client> = (0..24).map(|_| stage.world.connect(ADDRESS)).collect();
    stage.settle();
    let failed = |told: &Completion| matches!(told, Completion::AcceptFailed { .. });
    assert_eq!(stage.told.iter().filter(|told| failed(told)).count(), 1);
    assert_eq!(stage.world.ledger().sockets_open, 24);
    stage.told.clear();
    stage.ring.submit(Operation::Close(socket));
    stage.settle();
    assert!(matches!(stage.told[..], [Completion::Closed { .. }, Completion::Accepted { .. }]));
    assert!(others.iter().all(|client| !client.is_reset()));
}

#[test]
fn nobody_listens_at_a_closed_listener() {
    let mut stage = Stage::new();
    let listener = stage.ring.listen(ADDRESS).unwrap();
    let waiting = stage.world.connect(ADDRESS);
    stage.settle();
    stage.ring.submit(Operation::CloseListener(listener));
    stage.settle();
    let late = stage.world.connect(ADDRESS);
    stage.settle();
    assert!(waiting.is_reset() && late.is_reset());
    assert!(stage.told.is_empty());
}

#[test]
fn a_ring_connects_to_a_host_and_not_to_nobody() {
    let mut stage = Stage::new();
    let host = stage.world.host(ADDRESS);
    stage.ring.submit(Operation::Connect { address: ADDRESS, from: None, token: 5 });
    stage.settle();
    let Some(Completion::Connected { token: 5, result: Ok(socket) }) = stage.told.pop() else {
        panic!("not connected");
    };
    let client = host.accept().unwrap();
    client.write(b"welcome");
    stage.ring.submit(Operation::Receive(socket));
    stage.settle();
    assert_eq!(stage.bytes(), b"welcome");
    host.close();
    stage.ring.submit(Operation::Connect { address: ADDRESS, from: None, token: 6 });
    stage.ring.submit(Operation::Close(socket));
    stage.settle();
    let is_refused =
        |told: &Completion| matches!(told, Completion::Connected { token: 6, result: Err(_) });
    assert!(stage.told.iter().any(is_refused));
    assert!(stage.world.ledger().is_settled());
}

#[test]
fn a_connection_comes_from_the_address_that_was_named() {
    let world = World::with_faults(1, Faults::NONE);
    let (mut server, mut caller) = (world.ring(small()), world.ring(small()));
    let listener = server.listen(ADDRESS).unwrap();
    server.submit(Operation::Accept(listener));
    let from: SocketAddr = "10.9.8.7:0".parse().unwrap();
    caller.submit(Operation::Connect { address: ADDRESS, from: Some(from), token: 1 });
    let mut told = Vec::new();
    for _ in 0..1_000 {
        for ring in [&mut server, &mut caller] {
            ring.park(Patience::Forever);
            ring.reap(&mut told);
        }
        if world.is_calm() && !world.step() {
            break;
        }
    }
    let peers = told.iter().filter_map(|told| match told {
        Completion::Accepted { peer, .. } => *peer,
        _ => None,
    });
    let peers: Vec<_> = peers.collect();
    assert!(matches!(peers[..], [peer] if peer.ip() == from.ip() && peer.port() != 0), "{peers:?}");
}

#[test]
fn two_rings_talk_to_each_other() {
    let world = World::with_faults(1, Faults::NONE);
    let (mut server, mut caller) = (world.ring(small()), world.ring(small()));
    let listener = server.listen(ADDRESS).unwrap();
    server.submit(Operation::Accept(listener));
    caller.submit(Operation::Connect { address: ADDRESS, from: None, token: 1 });
    let (mut heard, mut told) = (Vec::<u8>::new(), Vec::new());
    for _ in 0..1_000 {
        for ring in [&mut server, &mut caller] {
            ring.park(Patience::Forever);
            ring.reap(&mut told);
            for completion in told.drain(..) {
                match completion {
                    Completion::Accepted { socket, .. } => ring.submit(Operation::Receive(socket)),
                    Completion::Connected { result, .. } => ring.submit(Operation::Send {
                        socket: result.unwrap(),
                        buffer: b"hello".to_vec(),
                        from: 0,
                    }),
                    Completion::Received { lease, .. } => {
                        heard.extend(&ring.bytes(&lease)[..lease.length as usize]);
                        ring.release(lease);
                    }
                    _ => {}
                }
            }
        }
        if world.is_calm() && !world.step() {
            break;
        }
    }
    assert_eq!(heard, b"hello");
}

#[test]
fn time_moves_by_patience_and_by_events_only() {
    let mut stage = Stage::new();
    let start = stage.ring.park(Patience::None);
    assert_eq!(stage.ring.park(Patience::None), start);
    let later = stage.ring.park(Patience::For(Duration::from_millis(30)));
    assert_eq!(later.since(start), Duration::from_millis(30));
    assert_eq!(stage.ring.park(Patience::Forever), later, "nothing will ever happen");
    stage.ring.waker().wake();
    assert_eq!(stage.ring.park(Patience::For(LONG)), later, "a wake ends the park");
    assert_eq!(stage.ring.park(Patience::For(LONG)).since(later), LONG, "and only one");
}

#[test]
fn an_attached_stream_stands_for_a_pipe() {
    let mut stage = Stage::new();
    let (input, outside) = stage.ring.attach().unwrap();
    stage.ring.submit(Operation::Receive(input));
    outside.write(b"line\n");
    outside.finish();
    stage.settle();
    assert_eq!(stage.bytes(), b"line\n");
    assert!(matches!(stage.told.pop(), Some(Completion::Ended { result: Ok(()), .. })));
}

#[test]
fn a_dropped_ring_ends_its_connections() {
    let mut stage = Stage::new();
    let (client, _) = stage.connected();
    drop(stage.ring);
    while stage.world.step() {}
    assert!(client.has_ended());
    assert!(stage.world.is_calm());
}

#[test]
fn a_released_buffer_is_spoiled_and_a_leased_one_padded() {
    let mut stage = Stage::new();
    let (client, socket) = stage.connected();
    stage.ring.submit(Operation::Receive(socket));
    client.write(b"bytes");
    stage.settle();
    let Some(Completion::Received { lease, .. }) = stage.told.pop() else { panic!("no bytes") };
    assert_eq!(stage.ring.bytes(&lease).len(), 5 + PADDING);
    let late = Lease { buffer: lease.buffer, length: lease.length };
    stage.ring.release(lease);
    assert!(!stage.ring.bytes(&late).starts_with(b"bytes"));
}

#[test]
#[should_panic(expected = "has a send in flight already")]
fn a_second_send_in_flight_is_a_mistake_of_the_driver() {
    let mut stage = Stage::new();
    let (client, socket) = stage.connected();
    client.stop_reading();
    stage.send(socket, &vec![0; 200_000]);
    stage.send(socket, b"another");
    stage.turn();
}

#[test]
#[should_panic(expected = "is not open, to send")]
fn a_send_after_the_close_is_a_mistake_of_the_driver() {
    let mut stage = Stage::new();
    let (_client, socket) = stage.connected();
    stage.ring.submit(Operation::Close(socket));
    stage.send(socket, b"too late");
    stage.turn();
}

#[test]
#[should_panic(expected = "released twice")]
fn a_lease_that_is_released_twice_is_a_mistake_of_the_driver() {
    let mut stage = Stage::new();
    let (client, socket) = stage.connected();
    stage.ring.submit(Operation::Receive(socket));
    client.write(b"bytes");
    stage.settle();
    let Some(Completion::Received { lease, .. }) = stage.told.pop() else { panic!("no bytes") };
    let forged = Lease { buffer: lease.buffer, length: lease.length };
    stage.ring.release(lease);
    stage.ring.release(forged);
}
