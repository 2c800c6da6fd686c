//! How the connections of an I/O thread are opened.

use std::io;

use super::command::{Command, PeerId};
use super::connect_job::ConnectJob;
#[cfg(feature = "internals")]
use super::ring_connector::RingConnector;
use crate::engine::blocking::BlockingPool;
use crate::engine::ring::{Ring, Socket};

/// Threads that open connections: name resolution, the start of programs and TLS handshakes block.
/// Each peer that does not answer occupies one for the connect timeout. They are started as they
/// are needed.
const CONNECT_THREADS_MAX: usize = 256;
/// Connections that wait to be opened.
const CONNECTS_MAX: usize = 65_536;

/// Opens connections.
pub(in crate::client::io) enum Connector {
    /// On threads, which report them by commands.
    Threads(BlockingPool<PeerId, ConnectJob>),
    /// On the ring of the driver, for simulations.
    #[cfg(feature = "internals")]
    Ring(RingConnector),
}

impl Connector {
    /// Creates a connector that starts a thread when it is needed.
    pub(in crate::client::io) fn threads() -> Self {
        Self::Threads(BlockingPool::new(CONNECT_THREADS_MAX, CONNECTS_MAX))
    }

    /// Begins to open a connection. Returns the report of one that cannot be opened now: this or,
    /// in its place, another.
    pub(in crate::client::io) fn open<R: Ring>(
        &mut self,
        ring: &mut R,
        job: ConnectJob,
    ) -> Option<Command> {
        let threads = match self {
            Self::Threads(threads) => threads,
            #[cfg(feature = "internals")]
            Self::Ring(connector) => return connector.open(ring, job),
        };
        #[cfg(not(feature = "internals"))]
        let _ = ring;
        let refused = match threads.spawn(job.peer, job) {
            Ok(spawned) => spawned.displaced,
            Err(job) => Some(job),
        };
        let error = || io::Error::other("too many connections are being opened");
        refused.map(|job| job.fail(error()))
    }

    /// Returns the report of an attempt on the ring that has completed.
    pub(in crate::client::io) fn report(
        &mut self,
        token: u64,
        result: io::Result<Socket>,
    ) -> Option<Command> {
        #[cfg(not(feature = "internals"))]
        drop((token, result));
        match self {
            // They use no operation of the ring.
            Self::Threads(_) => None,
            #[cfg(feature = "internals")]
            Self::Ring(connector) => connector.report(token, result),
        }
    }

    /// Returns the seed of the delays between the attempts to connect to a server.
    pub(in crate::client::io) fn backoff_seed(&self, peer: PeerId) -> u64 {
        match self {
            Self::Threads(_) => getrandom::u64().unwrap_or(peer.0),
            #[cfg(feature = "internals")]
            Self::Ring(connector) => connector.backoff_seed(peer),
        }
    }

    /// Returns whether the driver may end.
    pub(in crate::client::io) fn is_idle(&self) -> bool {
        match self {
            // What a thread opens later is closed with its command.
            Self::Threads(_) => true,
            #[cfg(feature = "internals")]
            Self::Ring(connector) => connector.is_idle(),
        }
    }
}
