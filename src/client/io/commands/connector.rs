//! How the connections of an I/O thread are opened.

use std::io;

use super::command::{Command, PeerId};
use super::connect_job::ConnectJob;
use super::ring_connector::{RingConnector, address_of};
use corelane_base::time::Instant;
use corelane_engine::blocking::BlockingPool;
use corelane_engine::ring::{Ring, Socket};

/// Threads that open connections: name resolution, the start of programs and TLS handshakes block.
/// Each peer that does not answer occupies one for the connect timeout. They are started as they
/// are needed.
const CONNECT_THREADS_MAX: usize = 256;
/// Connections that wait to be opened by a thread, and those that the ring opens at the same time.
const CONNECTS_MAX: usize = 65_536;

/// Opens connections: on the ring where nothing blocks, otherwise on threads, which report them by
/// commands.
pub struct Connector {
    on_ring: RingConnector,
    means: Means,
}

/// What opens the connections that the ring cannot.
enum Means {
    Threads(BlockingPool<PeerId, ConnectJob>),
    /// Nothing: a simulation, where nothing happens outside the ring. The seed determines the
    /// delays between attempts.
    #[cfg(feature = "test-support")]
    Nothing {
        seed: u64,
    },
}

impl Connector {
    /// Creates a connector that starts a thread when it is needed.
    pub fn with_threads() -> Self {
        let threads = BlockingPool::new(CONNECT_THREADS_MAX, CONNECTS_MAX);
        Self { on_ring: RingConnector::new(), means: Means::Threads(threads) }
    }

    /// Creates a connector for a simulation. `seed` determines the delays between attempts.
    #[cfg(feature = "test-support")]
    pub fn simulated(seed: u64) -> Self {
        Self { on_ring: RingConnector::new(), means: Means::Nothing { seed } }
    }

    /// Begins to open a connection. Returns the report of one that cannot be opened now: this or,
    /// in its place, another.
    pub fn open<R: Ring>(
        &mut self,
        ring: &mut R,
        job: ConnectJob,
        now: Instant,
    ) -> Option<Command> {
        let too_many = || io::Error::other("too many connections are being opened");
        // A thread closes the socket of a peer that does not answer.
        if let Some(address) = address_of(&job).filter(|_| self.on_ring.has_room()) {
            if self.on_ring.len() >= CONNECTS_MAX {
                return Some(job.fail(too_many()));
            }
            self.on_ring.open(ring, job, address, now);
            return None;
        }
        match &mut self.means {
            Means::Threads(threads) => {
                let refused = match threads.spawn(job.peer, job) {
                    Ok(spawned) => spawned.displaced,
                    Err(job) => Some(job),
                };
                refused.map(|job| job.fail(too_many()))
            }
            #[cfg(feature = "test-support")]
            Means::Nothing { .. } => {
                let text = "a simulation opens only connections to numeric addresses without TLS";
                Some(job.fail(io::Error::new(io::ErrorKind::Unsupported, text)))
            }
        }
    }

    /// Returns the report of an attempt on the ring that has completed.
    pub fn report<R: Ring>(
        &mut self,
        ring: &mut R,
        token: u64,
        result: io::Result<Socket>,
    ) -> Option<Command> {
        self.on_ring.report(ring, token, result)
    }

    /// Returns the report of an attempt on the ring whose time is over.
    pub fn expire(&mut self, now: Instant) -> Option<Command> {
        self.on_ring.expire(now)
    }

    /// Returns when the time of an attempt on the ring may be over.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.on_ring.next_deadline()
    }

    /// Returns the seed of the delays between the attempts to connect to a server.
    pub fn backoff_seed(&self, peer: PeerId) -> u64 {
        match self.means {
            Means::Threads(_) => getrandom::u64().unwrap_or(peer.0),
            #[cfg(feature = "test-support")]
            Means::Nothing { seed } => seed ^ peer.0.rotate_left(32),
        }
    }

    /// Returns whether the driver may end.
    pub fn is_idle(&self) -> bool {
        match self.means {
            // What a thread opens later is closed with its command, what the ring opens with it.
            Means::Threads(_) => true,
            #[cfg(feature = "test-support")]
            Means::Nothing { .. } => self.on_ring.len() == 0,
        }
    }
}
