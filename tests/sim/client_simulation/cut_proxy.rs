//! A proxy between clients and server that cuts connections after any byte, or stops to pass bytes.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::ring::sim::{Client, TestListener, World};

use crate::harness::server::listen_address;

/// Address at which the proxy listens.
pub(crate) fn proxy_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 9000).into()
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Pass,
    /// Both ends are closed.
    Close,
    /// Both ends are reset.
    Reset,
    /// No further byte is passed, for this time; then both ends are reset.
    Stall(Duration),
}

/// A connection of a client, and the one to the server.
#[derive(Debug)]
struct Link {
    client: Client,
    server: Client,
    fate: Fate,
    /// Whether the fate depends on bytes to the client, or to the server.
    is_to_client: bool,
    /// Bytes that are passed before.
    bytes_left: usize,
    stalled_until: Option<Instant>,
    /// The end of the input of each side was passed.
    has_ended: [bool; 2],
}

/// The proxy.
#[derive(Debug)]
pub(crate) struct CutProxy {
    world: World,
    listener: TestListener,
    links: Vec<Link>,
    random: Random,
    /// One connection in this many is cut.
    cut_chance: Option<usize>,
    /// Connections that were cut or stalled.
    pub(crate) cuts: u64,
}

impl CutProxy {
    pub(crate) fn new(world: &World, cut_chance: Option<usize>, random: Random) -> Self {
        let listener = world.listen(proxy_address());
        Self { world: world.clone(), listener, links: Vec::new(), random, cut_chance, cuts: 0 }
    }

    /// Cuts nothing from now on, and resets what is stalled.
    pub(crate) fn end_faults(&mut self, now: Instant) {
        self.cut_chance = None;
        for link in &mut self.links {
            link.fate = Fate::Pass;
            if let Some(until) = &mut link.stalled_until {
                *until = now;
            }
        }
    }

    /// Returns when a stalled connection is reset.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.links.iter().filter_map(|link| link.stalled_until).min()
    }

    /// Returns the number of open connections.
    pub(crate) const fn open_links(&self) -> usize {
        self.links.len()
    }

    /// Accepts connections and passes what has arrived.
    pub(crate) fn turn(&mut self, now: Instant) {
        while let Some(client) = self.listener.accept() {
            let link = self.draw_link(client);
            self.links.push(link);
        }
        let mut cuts = 0;
        self.links.retain_mut(|link| {
            let was_stalled = link.stalled_until.is_some();
            let is_open = link.turn(now);
            let is_cut = !is_open && link.fate != Fate::Pass && !was_stalled;
            cuts += u64::from(is_cut || (!was_stalled && link.stalled_until.is_some()));
            is_open
        });
        self.cuts += cuts;
    }

    fn draw_link(&mut self, client: Client) -> Link {
        let random = &mut self.random;
        let fate = match self.cut_chance {
            Some(chance) if random.chance(1, chance) => match random.below(5) {
                0 | 1 => Fate::Close,
                2 | 3 => Fate::Reset,
                _ => Fate::Stall(Duration::from_millis(1 + random.below(3_000) as u64)),
            },
            _ => Fate::Pass,
        };
        // Half of the cuts are within the first messages.
        let bytes = 1 << (4 + random.below(12));
        Link {
            client,
            server: self.world.connect(listen_address()),
            fate,
            is_to_client: random.chance(1, 2),
            bytes_left: random.below(bytes),
            stalled_until: None,
            has_ended: [false; 2],
        }
    }
}

impl Link {
    /// Passes what has arrived; returns whether the connection is still open.
    fn turn(&mut self, now: Instant) -> bool {
        let [from_client, from_server] =
            [&self.client, &self.server].map(|side| (side.take_received(), side.is_at_end()));
        if let Some(until) = self.stalled_until {
            if until <= now || self.client.is_reset() {
                return self.reset();
            }
            return true;
        }
        let passed = if self.is_to_client { &from_server.0 } else { &from_client.0 };
        let count = passed.len().min(self.bytes_left);
        let is_due = self.fate != Fate::Pass && passed.len() >= self.bytes_left;
        let (to_server, to_client) = match (is_due, self.is_to_client) {
            (true, true) => (&from_client.0[..], &from_server.0[..count]),
            (true, false) => (&from_client.0[..count], &from_server.0[..]),
            (false, _) => (&from_client.0[..], &from_server.0[..]),
        };
        self.bytes_left -= count;
        self.server.write(to_server);
        self.client.write(to_client);
        if is_due {
            return self.meet_fate(now);
        }
        if self.client.is_reset() || self.server.is_reset() {
            return self.reset();
        }
        for (index, is_at_end) in [from_client.1, from_server.1].into_iter().enumerate() {
            if is_at_end && !self.has_ended[index] {
                self.has_ended[index] = true;
                [&self.server, &self.client][index].shutdown_write();
            }
        }
        let is_flushed = self.client.unsent_bytes() + self.server.unsent_bytes() == 0;
        if self.has_ended == [true; 2] && is_flushed {
            self.close();
            return false;
        }
        true
    }

    fn meet_fate(&mut self, now: Instant) -> bool {
        match self.fate {
            Fate::Pass => true,
            Fate::Close => {
                self.close();
                false
            }
            Fate::Reset => self.reset(),
            Fate::Stall(time) => {
                self.stalled_until = Some(now.after(time));
                true
            }
        }
    }

    fn close(&self) {
        self.client.close();
        self.server.close();
    }

    fn reset(&self) -> bool {
        self.client.reset();
        self.server.reset();
        false
    }
}
