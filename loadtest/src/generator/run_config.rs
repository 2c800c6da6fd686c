//! Configuration of a run, as the load threads receive it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::stop_request::StopRequest;
use crate::children::Program;
use crate::mcp::{RequestSettings, RequestTemplate, Subscription};
use crate::schedule::{ArrivalPattern, RateProfile, ReconnectStorm};
use crate::users::UsersConfig;
use crate::wire::tls::RunTls;

/// Hint appended to connect errors.
pub const CONNECT_HINT: &str = "start the server or correct the address";

/// When requests are sent.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadMode {
    /// Open loop: at planned times.
    Open {
        /// Request rate, warm-up included.
        profile: RateProfile,
        /// Distribution of requests around the rate.
        pattern: ArrivalPattern,
    },
    /// Closed loop: as soon as the previous response arrives. Measures the capacity of a server,
    /// not the latency its users would see.
    Closed {
        /// Duration, warm-up included.
        span: Duration,
        /// Measured requests after which it ends earlier, over all load threads.
        requests: Option<u64>,
    },
    /// Users: each sends the steps of its scenario, with pauses.
    Users {
        /// Duration, warm-up included.
        span: Duration,
    },
    /// No requests: connections are only held open.
    Hold {
        /// Duration, warm-up included.
        span: Duration,
    },
}

impl LoadMode {
    /// Returns the duration, warm-up included.
    pub fn span(&self) -> Duration {
        match self {
            Self::Open { profile, .. } => profile.span(),
            Self::Closed { span, .. } | Self::Users { span } | Self::Hold { span } => *span,
        }
    }
}

/// Limits and timeouts of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RunLimits {
    /// Time to open all connections. Default 30 s.
    pub connect_timeout: Duration,
    /// Connects in progress at a time, per load thread. Default 128.
    pub connecting_max: usize,
    /// Time to wait for a response. Default 10 s.
    pub response_timeout: Duration,
    /// Time to wait for outstanding responses after the last request was due; later ones count as
    /// timeouts. Default `response_timeout`.
    pub drain_timeout: Option<Duration>,
    /// Requests that wait for an available connection, per load thread; further ones count as
    /// unsent. Costs 8 bytes each. Default 1,000,000.
    pub queued_max: usize,
    /// Delay before a connection that ended is opened again. Default 100 ms.
    pub retry_after: Duration,
    /// Time before a request is due in which the load thread spins instead of sleeping, because
    /// timers wake late. Costs up to one core per load thread, which is reported separately
    /// ([`Period::spun`](super::Period::spun)); set to zero if there are more load threads than
    /// cores. Default 100 µs.
    pub spin_before: Duration,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(30),
            connecting_max: 128,
            response_timeout: Duration::from_secs(10),
            drain_timeout: None,
            queued_max: 1_000_000,
            retry_after: Duration::from_millis(100),
            spin_before: Duration::from_micros(100),
        }
    }
}

impl RunLimits {
    /// Returns the time to wait for outstanding responses at the end of the run.
    pub fn drain_duration(&self) -> Duration {
        self.drain_timeout.unwrap_or(self.response_timeout)
    }
}

/// Subscription streams and the request that triggers their notifications.
#[derive(Clone, Debug)]
pub struct SubscribeConfig {
    /// What each stream subscribes to.
    pub subscription: Subscription,
    /// Number of streams, over all load threads.
    pub streams: usize,
    /// Request that triggers a notification.
    pub publish_request: RequestTemplate,
    /// Interval between two publications.
    pub interval: Duration,
}

impl SubscribeConfig {
    /// Returns the number of connections that carry the streams.
    pub const fn connections(&self) -> usize {
        self.streams.div_ceil(self.subscription.streams())
    }
}

/// Local addresses of connections and the rate at which they are opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectConfig {
    /// Local addresses, used round-robin; if empty, the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Connections opened per second, over all load threads; `None` for no limit.
    pub rate: Option<f64>,
}

/// Both endpoints of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Route {
    pub(super) address: SocketAddr,
    /// Local address without a port; `None` if the kernel chooses.
    pub(super) from: Option<SocketAddr>,
}

/// Planned replacement of connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChurnConfig {
    /// Connections replaced per second, over all load threads.
    pub rate: f64,
    /// Storm of reconnects; its time counts from the beginning of the run, warm-up included.
    pub storm: Option<ReconnectStorm>,
    /// Whether connections close without deleting their sessions.
    pub leaves_sessions: bool,
}

/// Connections that read slowly.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlowReaderConfig {
    /// Number of connections, over all load threads.
    pub connections: usize,
    /// Read rate of each, in bytes per second; 0 stops reading.
    pub bytes_per_second: u64,
    /// Requests in flight on each.
    pub depth: usize,
    /// Start of slow reading, from the beginning of the run, warm-up included.
    pub start_after: Duration,
    /// Index of the request they send; `None` draws from all, by weight.
    pub call: Option<u16>,
}

/// What connections lead to.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// Addresses of the server, used round-robin.
    Addresses(Vec<SocketAddr>),
    /// Program that is started for each connection.
    Program(Program),
}

impl Endpoint {
    /// Returns the addresses of the server; none if a program is started.
    pub fn addresses(&self) -> &[SocketAddr] {
        match self {
            Self::Addresses(addresses) => addresses,
            Self::Program(_) => &[],
        }
    }

    /// Returns the program that is started for each connection.
    pub const fn program(&self) -> Option<&Program> {
        match self {
            Self::Addresses(_) => None,
            Self::Program(program) => Some(program),
        }
    }
}

/// Connections that do more than requests, and what happens to them.
#[derive(Clone, Debug, Default)]
pub struct ConnectionRoles {
    /// Subscribers on additional connections.
    pub subscribers: Option<SubscribeConfig>,
    /// Planned replacement of connections.
    pub churn: Option<ChurnConfig>,
    /// Connections that read slowly.
    pub slow_readers: Option<SlowReaderConfig>,
}

/// Configuration of one run.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Transport, era and HTTP fields of the server.
    pub request_settings: RequestSettings,
    /// TLS configuration, if the target is encrypted.
    pub tls: Option<RunTls>,
    /// Server addresses, or the program that is started for each connection.
    pub endpoint: Endpoint,
    /// Local addresses and connect rate.
    pub connect: ConnectConfig,
    /// Request templates with their weights.
    pub calls: Vec<(RequestTemplate, u32)>,
    /// Number of connections, over all load threads.
    pub connections: usize,
    /// Users of the connections, one each, if they send the requests.
    pub users: Option<Arc<UsersConfig>>,
    /// Maximum requests in flight on each connection.
    pub depth: usize,
    /// When requests are sent.
    pub mode: LoadMode,
    /// Warm-up time, excluded from the results.
    pub warm_up: Duration,
    /// Seed of all random choices.
    pub seed: u64,
    /// Limits and timeouts.
    pub limits: RunLimits,
    /// Subscribers, replacement of connections and slow readers.
    pub roles: ConnectionRoles,
    /// Ends the run before its time.
    pub stop: StopRequest,
}

impl RunConfig {
    /// Returns all pairs of a local and a server address of the same family. Connections use them
    /// round-robin, so that the ephemeral ports of all pairs are used evenly.
    pub(super) fn routes(&self) -> Vec<Route> {
        let ConnectConfig { sources, .. } = &self.connect;
        let routes = self.endpoint.addresses().iter().flat_map(|&address| {
            let near = sources.iter().filter(move |source| source.is_ipv4() == address.is_ipv4());
            near.map(move |&source| Route { address, from: Some(SocketAddr::new(source, 0)) })
        });
        let routes: Vec<Route> = routes.collect();
        if routes.is_empty() {
            let anywhere = |&address| Route { address, from: None };
            return self.endpoint.addresses().iter().map(anywhere).collect();
        }
        routes
    }

    /// Returns when slow reading starts, if that is after the warm-up.
    pub(super) fn slow_reading_start(&self) -> Option<Duration> {
        let start = self.roles.slow_readers?.start_after;
        (start > self.warm_up).then_some(start)
    }

    /// Returns the total number of connections: for requests, event streams, subscribers, and the
    /// publisher.
    pub fn total_connections(&self) -> usize {
        self.connections
            + self.users.as_ref().map_or(0, |users| users.event_streams())
            + self.roles.subscribers.as_ref().map_or(0, |listen| listen.connections() + 1)
    }
}
