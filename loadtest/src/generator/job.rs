//! What a worker is to do.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::children::Program;
use crate::dialogue::{Call, Speech, Subscription};
use crate::schedule::{Pace, Profile, Storm};
use crate::wire::trust::TlsClient;

/// When requests leave.
#[derive(Clone, Debug, PartialEq)]
pub enum Drive {
    /// At moments that were planned: an open loop.
    Open {
        /// The rates, warm-up included.
        profile: Profile,
        /// How requests are spread around them.
        pace: Pace,
    },
    /// As soon as the one before is answered, for so long: a closed loop. It measures how fast a
    /// server can be driven, and says nothing about how long its users would wait.
    Closed {
        /// Warm-up included.
        span: Duration,
    },
    /// No requests: the connections are held open for so long.
    Hold {
        /// Warm-up included.
        span: Duration,
    },
}

impl Drive {
    /// How long it lasts, warm-up included.
    pub fn span(&self) -> Duration {
        match self {
            Self::Open { profile, .. } => profile.span(),
            Self::Closed { span } | Self::Hold { span } => *span,
        }
    }
}

/// The bounds of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// How long opening all connections may take. Default 30 s.
    pub connect_max: Duration,
    /// Connections of one worker that are being opened at one time. Default 128.
    pub connecting_max: usize,
    /// How long an answer may take. Default 10 s.
    pub answer_max: Duration,
    /// How long what is still open is waited for after the last request was due; what is open then
    /// has timed out. Default as long as an answer may take.
    pub drain_max: Option<Duration>,
    /// Requests that may wait for a connection with room, each worker. What comes beyond is
    /// counted as unsent. Cost: 8 bytes each. Default 1,000,000.
    pub due_max: usize,
    /// How long a connection that has ended stays away. Default 100 ms.
    pub retry_after: Duration,
    /// The last stretch before a request is due, which a worker spends awake: a sleep ends when
    /// the kernel finds the time for it. Cost: up to a whole core for each worker, which is told
    /// apart from its work ([`Period::spun`](super::Period::spun)); zero where there are more
    /// workers than cores. Default 100 µs.
    pub spin_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect_max: Duration::from_secs(30),
            connecting_max: 128,
            answer_max: Duration::from_secs(10),
            drain_max: None,
            due_max: 1_000_000,
            retry_after: Duration::from_millis(100),
            spin_max: Duration::from_micros(100),
        }
    }
}

impl Limits {
    /// How long the end of a run may take.
    pub fn drain(&self) -> Duration {
        self.drain_max.unwrap_or(self.answer_max)
    }
}

/// Streams that listen, and what they are told of.
#[derive(Clone, Debug)]
pub struct Listen {
    /// What is listened to, and by how many streams of a connection.
    pub subscription: Subscription,
    /// Streams, of all workers together.
    pub streams: usize,
    /// What causes a change.
    pub publish: Call,
    /// From one change to the next.
    pub every: Duration,
}

impl Listen {
    /// Connections that listen.
    pub const fn connections(&self) -> usize {
        self.streams.div_ceil(self.subscription.streams())
    }
}

/// Where connections come from, and how fast they are opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connecting {
    /// Local addresses, which connections take in turn; where there are none the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Connections opened a second, of all workers together; without it as fast as the server
    /// accepts.
    pub rate: Option<f64>,
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Route {
    /// The server's.
    pub(super) address: SocketAddr,
    /// The local one, without a port; none where the kernel chooses.
    pub(super) from: Option<SocketAddr>,
}

/// Connections that come and go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Churn {
    /// Connections a second that are closed and opened again, of all workers together.
    pub rate: f64,
    /// Many at once; its moment counts from the beginning, warm-up included.
    pub storm: Option<Storm>,
    /// They go without a word, and their sessions stay.
    pub leaves_sessions: bool,
}

/// Connections that read slowly.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Readers {
    /// How many, of all workers together.
    pub slow: usize,
    /// How fast each reads; 0 not at all.
    pub bytes_per_second: u64,
    /// Requests that each has unanswered.
    pub depth: usize,
    /// From when on, counted from the beginning, warm-up included.
    pub at: Duration,
    /// What they ask for: the place of one of the calls; drawn like those of the others without.
    pub call: Option<u16>,
}

/// One run, as all workers get it.
#[derive(Clone, Debug)]
pub struct Job {
    /// How the server is spoken to.
    pub speech: Speech,
    /// How it is encrypted, where it is.
    pub tls: Option<TlsClient>,
    /// Where it listens; connections take these in turn. Without an address there is a program.
    pub addresses: Vec<SocketAddr>,
    /// The program that each connection is a process of, instead of an address.
    pub program: Option<Program>,
    /// Where connections come from, and how fast they are opened.
    pub connect: Connecting,
    /// The kinds of requests with their weights.
    pub calls: Vec<(Call, u32)>,
    /// Connections, of all workers together.
    pub connections: usize,
    /// Requests in flight on each.
    pub depth: usize,
    /// When requests leave.
    pub drive: Drive,
    /// What of the beginning is not measured.
    pub warm_up: Duration,
    /// Decides where chance does.
    pub seed: u64,
    /// Who listens meanwhile, on connections beside the others.
    pub listen: Option<Listen>,
    /// The bounds.
    pub limits: Limits,
    /// Connections that come and go.
    pub churn: Option<Churn>,
    /// Connections that read slowly.
    pub readers: Option<Readers>,
}

impl Job {
    /// All pairs of a local address and one of the server's of the same family. Connections take
    /// them in turn, so that none has more than its share of the ports.
    pub(super) fn routes(&self) -> Vec<Route> {
        let Connecting { sources, .. } = &self.connect;
        let routes = self.addresses.iter().flat_map(|&address| {
            let near = sources.iter().filter(move |source| source.is_ipv4() == address.is_ipv4());
            near.map(move |&source| Route { address, from: Some(SocketAddr::new(source, 0)) })
        });
        let routes: Vec<Route> = routes.collect();
        if routes.is_empty() {
            let anywhere = |&address| Route { address, from: None };
            return self.addresses.iter().map(anywhere).collect();
        }
        routes
    }

    /// All connections: those for requests, those that listen, and the one that publishes.
    pub fn connections_all(&self) -> usize {
        self.connections + self.listen.as_ref().map_or(0, |listen| listen.connections() + 1)
    }
}
