//! A group of clients, one per connection, on its own ring and thread.
//!
//! Its sockets are direct descriptors too, so the limit of a process depends on its number of
//! rings. The messages of a client are defined by [`BenchClient`].

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use corelane_engine::ring::uring::UringRing;
use corelane_engine::ring::{Completion, Operation, ParkTimeout, Ring, RingOptions, Socket};

/// Connections that are opened at a time.
const OPENING_MAX: usize = 64;
/// Timeout of a wait without any completion.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The client of one connection.
pub trait BenchClient {
    /// Returns its first message.
    fn first_message(&self) -> Vec<u8>;

    /// Handles received bytes.
    fn receive(&mut self, arrived: &[u8], now: Instant) -> io::Result<Received>;
}

/// Result of [`BenchClient::receive`].
#[derive(Debug)]
pub enum Received {
    /// More bytes are needed.
    Incomplete,
    /// Send this; the client is not ready yet.
    Send(Vec<u8>),
    /// The client is ready.
    Ready,
    /// This many correct responses.
    Responses(usize),
}

#[derive(Debug)]
struct Entry<G> {
    socket: Socket,
    client: G,
}

/// Clients of one ring.
pub struct ClientGroup<G> {
    ring: UringRing,
    clients: Vec<Entry<G>>,
    /// Client index by socket.
    client_by_socket: Vec<usize>,
    /// Clients without a connection, the next one last.
    unconnected: Vec<G>,
    ready: usize,
    answered: usize,
    /// Time of the last completion.
    last_completion: Instant,
}

impl<G: BenchClient> ClientGroup<G> {
    /// Connects all `clients` to the server at `address` and waits until they are ready.
    pub fn open(address: SocketAddr, clock: Clock, clients: Vec<G>) -> io::Result<Self> {
        Self::open_many(address, clock, clients, OPENING_MAX)
    }

    /// Does the same with this many clients at a time that are not ready.
    pub fn open_many(
        address: SocketAddr,
        clock: Clock,
        clients: Vec<G>,
        at_a_time: usize,
    ) -> io::Result<Self> {
        let count = clients.len();
        let options = RingOptions {
            sockets_max: u32::try_from(count).map_err(io::Error::other)?,
            ..RingOptions::default()
        };
        let mut group = Self {
            ring: UringRing::new(&options, clock)?,
            clients: Vec::with_capacity(count),
            client_by_socket: Vec::new(),
            unconnected: clients,
            ready: 0,
            answered: 0,
            last_completion: clock.now(),
        };
        let mut started = 0;
        while group.ready < count {
            while started < count.min(group.ready + at_a_time) {
                group.ring.submit(Operation::Connect {
                    address,
                    local_address: None,
                    keepalive: false,
                    token: started as u64,
                });
                started += 1;
            }
            group.turn()?;
        }
        Ok(group)
    }

    /// Returns all clients in the order of their connections.
    pub fn clients(&self) -> impl Iterator<Item = &G> {
        self.clients.iter().map(|entry| &entry.client)
    }

    /// Sends `request` on every connection whose number, counted from `first`, is a multiple of
    /// `every`, and waits for all responses; returns their number.
    pub fn request(
        &mut self,
        first: usize,
        every: usize,
        request: impl Fn(&G) -> Vec<u8>,
    ) -> io::Result<usize> {
        let sent = self.send(first, every, request);
        self.wait_for_responses(sent)?;
        Ok(sent)
    }

    /// Sends as [`Self::request`] does, without waiting.
    pub fn send(&mut self, first: usize, every: usize, request: impl Fn(&G) -> Vec<u8>) -> usize {
        let mut sent = 0;
        for (number, entry) in (first..).zip(&self.clients) {
            if number.is_multiple_of(every) {
                let (socket, buffer) = (entry.socket, request(&entry.client));
                self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
                sent += 1;
            }
        }
        sent
    }

    /// Handles what arrives for this time.
    pub fn run_for(&mut self, span: Duration) -> io::Result<()> {
        self.last_completion = self.ring.park(ParkTimeout::Zero);
        let until = self.last_completion.after(span);
        while self.last_completion < until {
            self.turn()?;
        }
        Ok(())
    }

    /// Waits for `count` responses.
    pub fn wait_for_responses(&mut self, count: usize) -> io::Result<()> {
        self.last_completion = self.ring.park(ParkTimeout::Zero);
        while self.answered < count {
            self.turn()?;
        }
        self.answered -= count;
        Ok(())
    }

    fn turn(&mut self) -> io::Result<()> {
        let now = self.ring.park(ParkTimeout::After(WAIT_TIMEOUT));
        let mut completions = Vec::new();
        self.ring.reap(&mut completions);
        if !completions.is_empty() {
            self.last_completion = now;
        } else if now.since(self.last_completion) >= WAIT_TIMEOUT {
            let (ready, answered) = (self.ready, self.answered);
            let text = format!("timeout with {ready} clients ready and {answered} responses");
            return Err(io::Error::other(text));
        }
        for completion in completions {
            match completion {
                Completion::Connected { result, .. } => self.connected(result?)?,
                Completion::Received { socket, buffer } => {
                    let entry = &mut self.clients[self.client_by_socket[socket.index()]];
                    let bytes = &self.ring.bytes(&buffer)[..buffer.len as usize];
                    let received = entry.client.receive(bytes, now);
                    self.ring.release(buffer);
                    match received? {
                        Received::Incomplete => {}
                        Received::Send(buffer) => {
                            self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
                        }
                        Received::Ready => self.ready += 1,
                        Received::Responses(count) => self.answered += count,
                    }
                }
                Completion::Sent { result, .. } => drop(result?),
                Completion::EndOfStream { .. } => {
                    let ready = self.ready;
                    let text =
                        format!("the server closed a connection, {ready} clients were ready");
                    return Err(io::Error::other(text));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn connected(&mut self, socket: Socket) -> io::Result<()> {
        let client = self.unconnected.pop();
        let client = client.ok_or_else(|| io::Error::other("more connections than clients"))?;
        if self.client_by_socket.len() <= socket.index() {
            self.client_by_socket.resize(socket.index() + 1, usize::MAX);
        }
        self.client_by_socket[socket.index()] = self.clients.len();
        self.ring.submit(Operation::Receive(socket));
        let buffer = client.first_message();
        self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
        self.clients.push(Entry { socket, client });
        Ok(())
    }
}
