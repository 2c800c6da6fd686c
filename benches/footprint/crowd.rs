//! A crowd of guests, one a connection: opened, held and asked, on a ring and a thread of its own.
//!
//! Its sockets are direct descriptors too, so one process can hold as many as it has rings for.
//! What a guest says and expects is its own affair; see [`Guest`].

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use corelane::base::time::Moment;
use corelane::engine::clock::Clock;
use corelane::engine::ring::uring::UringRing;
use corelane::engine::ring::{Completion, Operation, Patience, Ring, RingOptions, Socket};

/// Guests that are coming in at one time.
const OPENING_MAX: usize = 64;
/// How long nothing may happen while something is expected.
const PATIENCE: Duration = Duration::from_secs(10);

/// The client's end of one connection.
pub(crate) trait Guest {
    /// What it says first.
    fn greet(&self) -> Vec<u8>;

    /// What follows from what arrived.
    fn hear(&mut self, arrived: &[u8], now: Moment) -> io::Result<Heard>;
}

/// What follows from what a guest heard.
#[derive(Debug)]
pub(crate) enum Heard {
    /// More must come.
    Nothing,
    /// The next words; the guest is still coming in.
    Say(Vec<u8>),
    /// It is in.
    Open,
    /// So many answers, which were right.
    Answers(usize),
}

#[derive(Debug)]
struct Place<G> {
    socket: Socket,
    guest: G,
}

/// Guests of one ring.
pub(crate) struct Crowd<G> {
    ring: UringRing,
    places: Vec<Place<G>>,
    /// From socket to place.
    sockets: Vec<usize>,
    /// Guests that have not been given a connection, the next one last.
    waiting: Vec<G>,
    open: usize,
    answered: usize,
    /// When something last happened.
    heard_at: Moment,
}

impl<G: Guest> Crowd<G> {
    /// Connects all `guests` with the server at `address` and waits until each of them is in.
    pub(crate) fn open(address: SocketAddr, clock: Clock, guests: Vec<G>) -> io::Result<Self> {
        let count = guests.len();
        let options = RingOptions {
            sockets_max: u32::try_from(count).map_err(io::Error::other)?,
            ..RingOptions::default()
        };
        let mut crowd = Self {
            ring: UringRing::new(&options, clock)?,
            places: Vec::with_capacity(count),
            sockets: Vec::new(),
            waiting: guests,
            open: 0,
            answered: 0,
            heard_at: clock.now(),
        };
        let mut begun = 0;
        while crowd.open < count {
            while begun < count.min(crowd.open + OPENING_MAX) {
                crowd.ring.submit(Operation::Connect { address, from: None, token: begun as u64 });
                begun += 1;
            }
            crowd.turn()?;
        }
        Ok(crowd)
    }

    /// Everybody, in the order of their connections.
    pub(crate) fn guests(&self) -> impl Iterator<Item = &G> {
        self.places.iter().map(|place| &place.guest)
    }

    /// Says `words` on every connection whose number in the whole crowd, counted from `first`, is a
    /// multiple of `every`; returns how many answered, which is all of them.
    pub(crate) fn ask(
        &mut self,
        first: usize,
        every: usize,
        words: impl Fn(&G) -> Vec<u8>,
    ) -> io::Result<usize> {
        let mut asked = 0;
        for (number, place) in (first..).zip(&self.places) {
            if number.is_multiple_of(every) {
                let (socket, buffer) = (place.socket, words(&place.guest));
                self.ring.submit(Operation::Send { socket, buffer, from: 0 });
                asked += 1;
            }
        }
        self.hear(asked)?;
        Ok(asked)
    }

    /// Waits for so many answers.
    pub(crate) fn hear(&mut self, answers: usize) -> io::Result<()> {
        self.heard_at = self.ring.park(Patience::None);
        while self.answered < answers {
            self.turn()?;
        }
        self.answered -= answers;
        Ok(())
    }

    fn turn(&mut self) -> io::Result<()> {
        let now = self.ring.park(Patience::For(PATIENCE));
        let mut completions = Vec::new();
        self.ring.reap(&mut completions);
        if !completions.is_empty() {
            self.heard_at = now;
        } else if now.since(self.heard_at) >= PATIENCE {
            let (open, answered) = (self.open, self.answered);
            let text = format!("silence with {open} open and {answered} answers");
            return Err(io::Error::other(text));
        }
        for completion in completions {
            match completion {
                Completion::Connected { result, .. } => self.connected(result?)?,
                Completion::Received { socket, lease } => {
                    let place = &mut self.places[self.sockets[socket.index()]];
                    let bytes = &self.ring.bytes(&lease)[..lease.length as usize];
                    let heard = place.guest.hear(bytes, now);
                    self.ring.release(lease);
                    match heard? {
                        Heard::Nothing => {}
                        Heard::Say(buffer) => {
                            self.ring.submit(Operation::Send { socket, buffer, from: 0 });
                        }
                        Heard::Open => self.open += 1,
                        Heard::Answers(count) => self.answered += count,
                    }
                }
                Completion::Sent { result, .. } => drop(result?),
                Completion::Ended { .. } => {
                    let open = self.open;
                    let text = format!("the server closed a connection, {open} were open");
                    return Err(io::Error::other(text));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn connected(&mut self, socket: Socket) -> io::Result<()> {
        let guest = self.waiting.pop();
        let guest = guest.ok_or_else(|| io::Error::other("more connections than guests"))?;
        if self.sockets.len() <= socket.index() {
            self.sockets.resize(socket.index() + 1, usize::MAX);
        }
        self.sockets[socket.index()] = self.places.len();
        self.ring.submit(Operation::Receive(socket));
        let buffer = guest.greet();
        self.ring.submit(Operation::Send { socket, buffer, from: 0 });
        self.places.push(Place { socket, guest });
        Ok(())
    }
}
