//! The simulated network without injected faults.

use std::net::SocketAddr;
use std::time::Duration;

use corelane_engine::ring::sim::{Client, Faults, SimRing, World};
use corelane_engine::ring::{
    Completion, Operation, PADDING, ParkTimeout, ReceiveBuffer, Ring, Socket,
};

use super::{ADDRESS, MAX_RUN_TIME, small_ring};

/// A simulated ring without faults and its completions so far.
struct Simulation {
    world: World,
    ring: SimRing,
    completions: Vec<Completion>,
}

impl Simulation {
    fn new() -> Self {
        let world = World::with_faults(1, Faults::NONE);
        let ring = world.ring(small_ring());
        Self { world, ring, completions: Vec::new() }
    }

    fn turn(&mut self) {
        self.ring.park(ParkTimeout::After(MAX_RUN_TIME));
        self.ring.reap(&mut self.completions);
    }

    /// Turns until no event is left.
    fn run_until_idle(&mut self) {
        loop {
            let before = self.world.now();
            self.turn();
            if self.world.now().since(before) >= MAX_RUN_TIME {
                return;
            }
        }
    }

    fn connect(&mut self) -> (Client, Socket) {
        let listener = self.ring.listen(ADDRESS).unwrap();
        self.ring.submit(Operation::Accept(listener));
        let client = self.world.connect(ADDRESS);
        self.run_until_idle();
        match self.completions.pop() {
            Some(Completion::Accepted { listener: of, socket, peer }) => {
                assert_eq!((of, peer), (listener, Some(client.address())));
                (client, socket)
            }
            other => panic!("not accepted: {other:?}"),
        }
    }

    /// Takes all received bytes and releases their buffers.
    fn take_received(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for completion in std::mem::take(&mut self.completions) {
            match completion {
                Completion::Received { buffer, .. } => {
                    bytes.extend(&self.ring.bytes(&buffer)[..buffer.len as usize]);
                    self.ring.release(buffer);
                }
                other => self.completions.push(other),
            }
        }
        bytes
    }

    fn send(&mut self, socket: Socket, bytes: &[u8]) {
        self.ring.submit(Operation::Send { socket, buffer: bytes.to_vec(), offset: 0 });
    }
}

#[test]
fn request_and_response_cross_and_both_sides_close() {
    let mut sim = Simulation::new();
    let (client, socket) = sim.connect();
    client.write(b"question");
    sim.run_until_idle();
    assert!(sim.completions.is_empty(), "bytes arrive only after a receive");
    sim.ring.submit(Operation::Receive(socket));
    sim.run_until_idle();
    assert_eq!(sim.take_received(), b"question");
    sim.send(socket, b"answer");
    sim.ring.submit(Operation::ShutdownWrite(socket));
    sim.run_until_idle();
    assert!(matches!(sim.completions.pop(), Some(Completion::Sent { result: Ok(6), .. })));
    assert_eq!(client.take_received(), b"answer");
    assert!(client.is_at_end());
    client.write(b", thanks");
    client.shutdown_write();
    sim.run_until_idle();
    assert_eq!(sim.take_received(), b", thanks");
    assert!(matches!(sim.completions.pop(), Some(Completion::EndOfStream { result: Ok(()), .. })));
    sim.ring.submit(Operation::Close(socket));
    sim.run_until_idle();
    assert!(matches!(sim.completions[..], [Completion::Closed { .. }]));
    assert!(sim.world.resource_usage().is_idle());
}

#[test]
fn slow_reader_blocks_send() {
    let mut sim = Simulation::new();
    let (client, socket) = sim.connect();
    client.stop_reading();
    let bytes = vec![7; 200_000];
    sim.send(socket, &bytes);
    sim.run_until_idle();
    assert!(sim.completions.is_empty());
    assert_eq!(sim.world.resource_usage().sends_in_flight, 1);
    client.read_slowly(10_000, Duration::from_millis(1));
    sim.run_until_idle();
    assert!(matches!(sim.completions.pop(), Some(Completion::Sent { result: Ok(200_000), .. })));
    assert_eq!(client.take_received().len(), 200_000);
}

#[test]
fn shutdown_write_waits_for_send_in_flight() {
    let mut sim = Simulation::new();
    let (client, socket) = sim.connect();
    client.stop_reading();
    sim.send(socket, &vec![7; 200_000]);
    sim.ring.submit(Operation::ShutdownWrite(socket));
    sim.run_until_idle();
    assert!(sim.completions.is_empty() && !client.is_at_end());
    client.read_eagerly();
    sim.run_until_idle();
    assert!(matches!(sim.completions.pop(), Some(Completion::Sent { result: Ok(200_000), .. })));
    assert_eq!(client.take_received().len(), 200_000);
    assert!(client.is_at_end());
}

#[test]
fn close_returns_blocked_send_and_nothing_else() {
    let mut sim = Simulation::new();
    let (client, socket) = sim.connect();
    sim.ring.submit(Operation::Receive(socket));
    client.stop_reading();
    sim.send(socket, &vec![7; 200_000]);
    client.write(b"never read");
    sim.turn();
    sim.ring.submit(Operation::Close(socket));
    sim.completions.retain(|completion| matches!(completion, Completion::Sent { .. }));
    sim.run_until_idle();
    assert!(
        matches!(
            &sim.completions[..],
            [Completion::Sent { buffer, result: Err(_), .. }, Completion::Closed { .. }]
                if buffer.len() == 200_000
        ),
        "{:?}",
        sim.completions
    );
    sim.take_received();
    assert!(sim.world.resource_usage().is_idle(), "{:?}", sim.world.resource_usage());
}

#[test]
fn reset_returns_blocked_send_and_resets_peer() {
    let mut sim = Simulation::new();
    let (client, socket) = sim.connect();
    client.stop_reading();
    sim.send(socket, &vec![7; 200_000]);
    sim.run_until_idle();
    assert!(sim.completions.is_empty() && !client.is_reset());
    sim.ring.submit(Operation::Reset(socket));
    sim.run_until_idle();
    assert!(
        matches!(
            &sim.completions[..],
            [Completion::Sent { result: Err(_), .. }, Completion::Closed { .. }]
        ),
        "{:?}",
        sim.completions
    );
    assert!(client.is_reset());
    // What had arrived before can still be read.
    client.read_eagerly();
    sim.run_until_idle();
    assert!((1..200_000).contains(&client.take_received().len()));
    assert!(sim.world.resource_usage().is_idle(), "{:?}", sim.world.resource_usage());
}

#[test]
fn send_to_closed_peer_fails() {
    let mut sim = Simulation::new();
    let (client, socket) = sim.connect();
    client.close();
    sim.send(socket, b"hello?");
    sim.run_until_idle();
    assert!(matches!(sim.completions.pop(), Some(Completion::Sent { result: Ok(6), .. })));
    sim.send(socket, b"still there?");
    sim.run_until_idle();
    assert!(matches!(sim.completions.pop(), Some(Completion::Sent { result: Err(_), .. })));
}

#[test]
fn exhausted_receive_buffers_close_the_window() {
    let mut sim = Simulation::new();
    let (client, socket) = sim.connect();
    sim.ring.submit(Operation::Receive(socket));
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    client.write(&bytes);
    sim.run_until_idle();
    assert_eq!(sim.completions.len(), 8, "every receive buffer");
    assert!(client.unsent_bytes() > 0, "the window is closed");
    let mut arrived = sim.take_received();
    while arrived.len() < bytes.len() {
        sim.turn();
        arrived.extend(sim.take_received());
    }
    assert!(arrived == bytes);
    assert_eq!((client.unsent_bytes(), sim.world.resource_usage().receive_buffers_held), (0, 0));
}

#[test]
fn full_ring_accepts_when_a_socket_closes() {
    let mut sim = Simulation::new();
    let (_first, socket) = sim.connect();
    let others: Vec<Client> = (0..24).map(|_| sim.world.connect(ADDRESS)).collect();
    sim.run_until_idle();
    let failed = |completion: &Completion| matches!(completion, Completion::AcceptFailed { .. });
    assert_eq!(sim.completions.iter().filter(|completion| failed(completion)).count(), 1);
    assert_eq!(sim.world.resource_usage().sockets_open, 24);
    sim.completions.clear();
    sim.ring.submit(Operation::Close(socket));
    sim.run_until_idle();
    assert!(matches!(
        sim.completions[..],
        [Completion::Closed { .. }, Completion::Accepted { .. }]
    ));
    assert!(others.iter().all(|client| !client.is_reset()));
}

#[test]
fn closed_listener_resets_connections() {
    let mut sim = Simulation::new();
    let listener = sim.ring.listen(ADDRESS).unwrap();
    let waiting = sim.world.connect(ADDRESS);
    sim.run_until_idle();
    sim.ring.submit(Operation::CloseListener(listener));
    sim.run_until_idle();
    let late = sim.world.connect(ADDRESS);
    sim.run_until_idle();
    assert!(waiting.is_reset() && late.is_reset());
    assert!(sim.completions.is_empty());
}

#[test]
fn connect_reaches_host_or_is_refused() {
    let mut sim = Simulation::new();
    let host = sim.world.listen(ADDRESS);
    sim.ring.submit(Operation::Connect {
        address: ADDRESS,
        local_address: None,
        keepalive: false,
        token: 5,
    });
    sim.run_until_idle();
    let Some(Completion::Connected { token: 5, result: Ok(socket) }) = sim.completions.pop() else {
        panic!("not connected");
    };
    let client = host.accept().unwrap();
    client.write(b"welcome");
    sim.ring.submit(Operation::Receive(socket));
    sim.run_until_idle();
    assert_eq!(sim.take_received(), b"welcome");
    host.close();
    sim.ring.submit(Operation::Connect {
        address: ADDRESS,
        local_address: None,
        keepalive: false,
        token: 6,
    });
    sim.ring.submit(Operation::Close(socket));
    sim.run_until_idle();
    let is_refused = |completion: &Completion| {
        matches!(completion, Completion::Connected { token: 6, result: Err(_) })
    };
    assert!(sim.completions.iter().any(is_refused));
    assert!(sim.world.resource_usage().is_idle());
}

#[test]
fn connect_uses_given_source_address() {
    let world = World::with_faults(1, Faults::NONE);
    let (mut server, mut caller) = (world.ring(small_ring()), world.ring(small_ring()));
    let listener = server.listen(ADDRESS).unwrap();
    server.submit(Operation::Accept(listener));
    let from: SocketAddr = "10.9.8.7:0".parse().unwrap();
    caller.submit(Operation::Connect {
        address: ADDRESS,
        local_address: Some(from),
        keepalive: false,
        token: 1,
    });
    let mut completions = Vec::new();
    for _ in 0..1_000 {
        for ring in [&mut server, &mut caller] {
            ring.park(ParkTimeout::Infinite);
            ring.reap(&mut completions);
        }
        if world.is_idle() && !world.advance() {
            break;
        }
    }
    let peers = completions.iter().filter_map(|completion| match completion {
        Completion::Accepted { peer, .. } => *peer,
        _ => None,
    });
    let peers: Vec<_> = peers.collect();
    assert!(matches!(peers[..], [peer] if peer.ip() == from.ip() && peer.port() != 0), "{peers:?}");
}

#[test]
fn two_rings_exchange_bytes() {
    let world = World::with_faults(1, Faults::NONE);
    let (mut server, mut caller) = (world.ring(small_ring()), world.ring(small_ring()));
    let listener = server.listen(ADDRESS).unwrap();
    server.submit(Operation::Accept(listener));
    caller.submit(Operation::Connect {
        address: ADDRESS,
        local_address: None,
        keepalive: false,
        token: 1,
    });
    let (mut received, mut completions) = (Vec::<u8>::new(), Vec::new());
    for _ in 0..1_000 {
        for ring in [&mut server, &mut caller] {
            ring.park(ParkTimeout::Infinite);
            ring.reap(&mut completions);
            for completion in completions.drain(..) {
                match completion {
                    Completion::Accepted { socket, .. } => ring.submit(Operation::Receive(socket)),
                    Completion::Connected { result, .. } => ring.submit(Operation::Send {
                        socket: result.unwrap(),
                        buffer: b"hello".to_vec(),
                        offset: 0,
                    }),
                    Completion::Received { buffer, .. } => {
                        received.extend(&ring.bytes(&buffer)[..buffer.len as usize]);
                        ring.release(buffer);
                    }
                    _ => {}
                }
            }
        }
        if world.is_idle() && !world.advance() {
            break;
        }
    }
    assert_eq!(received, b"hello");
}

#[test]
fn simulated_time_advances_by_timeouts_and_events_only() {
    let mut sim = Simulation::new();
    let start = sim.ring.park(ParkTimeout::Zero);
    assert_eq!(sim.ring.park(ParkTimeout::Zero), start);
    let later = sim.ring.park(ParkTimeout::After(Duration::from_millis(30)));
    assert_eq!(later.since(start), Duration::from_millis(30));
    assert_eq!(sim.ring.park(ParkTimeout::Infinite), later, "no event is left");
    sim.ring.waker().wake();
    assert_eq!(sim.ring.park(ParkTimeout::After(MAX_RUN_TIME)), later, "a wake ends the park");
    assert_eq!(
        sim.ring.park(ParkTimeout::After(MAX_RUN_TIME)).since(later),
        MAX_RUN_TIME,
        "a wake ends one park"
    );
}

#[test]
fn attached_stream_acts_as_pipe() {
    let mut sim = Simulation::new();
    let (input, outside) = sim.ring.attach().unwrap();
    sim.ring.submit(Operation::Receive(input));
    outside.write(b"line\n");
    outside.shutdown_write();
    sim.run_until_idle();
    assert_eq!(sim.take_received(), b"line\n");
    assert!(matches!(sim.completions.pop(), Some(Completion::EndOfStream { result: Ok(()), .. })));
}

#[test]
fn dropped_ring_closes_its_connections() {
    let mut sim = Simulation::new();
    let (client, _) = sim.connect();
    drop(sim.ring);
    while sim.world.advance() {}
    assert!(client.is_at_end());
    assert!(sim.world.is_idle());
}

#[test]
fn released_buffer_is_overwritten_and_leased_one_padded() {
    let mut sim = Simulation::new();
    let (client, socket) = sim.connect();
    sim.ring.submit(Operation::Receive(socket));
    client.write(b"bytes");
    sim.run_until_idle();
    let Some(Completion::Received { buffer, .. }) = sim.completions.pop() else {
        panic!("no bytes")
    };
    assert_eq!(sim.ring.bytes(&buffer).len(), 5 + PADDING);
    let late = ReceiveBuffer { index: buffer.index, len: buffer.len };
    sim.ring.release(buffer);
    assert!(!sim.ring.bytes(&late).starts_with(b"bytes"));
}

#[test]
#[should_panic(expected = "has a send in flight already")]
fn second_send_in_flight_panics() {
    let mut sim = Simulation::new();
    let (client, socket) = sim.connect();
    client.stop_reading();
    sim.send(socket, &vec![0; 200_000]);
    sim.send(socket, b"another");
    sim.turn();
}

#[test]
#[should_panic(expected = "which is not open")]
fn send_after_close_panics() {
    let mut sim = Simulation::new();
    let (_client, socket) = sim.connect();
    sim.ring.submit(Operation::Close(socket));
    sim.send(socket, b"too late");
    sim.turn();
}

#[test]
#[should_panic(expected = "released twice")]
fn double_release_of_buffer_panics() {
    let mut sim = Simulation::new();
    let (client, socket) = sim.connect();
    sim.ring.submit(Operation::Receive(socket));
    client.write(b"bytes");
    sim.run_until_idle();
    let Some(Completion::Received { buffer, .. }) = sim.completions.pop() else {
        panic!("no bytes")
    };
    let forged = ReceiveBuffer { index: buffer.index, len: buffer.len };
    sim.ring.release(buffer);
    sim.ring.release(forged);
}
