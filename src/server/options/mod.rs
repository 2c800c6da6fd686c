//! The options of a server, each with its default and its cost.
//!
//! [`declare`] says how an option is declared; an option stands nowhere else. [`mod@unit`] and
//! [`value`] convert its value from and to text, for `config`.

#[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "the command line reads the rest"))]
pub mod unit;

pub mod value;

pub mod declare;

mod proxies;

mod auth;
mod card;
mod engine;
mod gateway;
mod http;
mod limits;
mod parity;
mod services;
mod tcp;
mod tls;
mod traces;

use std::net::{Ipv4Addr, SocketAddr};

use corelane_transport::http::head::RequestLimits;

pub use self::auth::{AuthOptions, DpopMode};
pub use self::card::CardOptions;
use self::declare::{GIB, KIB, options};
pub(crate) use self::engine::{ACCEPTS, MESH, RING};
pub use self::engine::{EngineOptions, ExecutorKind, RingBackend};
pub use self::gateway::{ExposeMode, GatewayOptions, NamePrefix, NameSeparator};
pub use self::http::{AdminOptions, HttpOptions, SecondStream};
pub use self::limits::{
    BreakerOptions, LimitOptions, MemoryGuardOptions, OverloadOptions, RateOptions,
};
pub use self::parity::{CapabilitiesTimeoutPolicy, ParityMode, ParityOptions, ParityTimeouts};
pub use self::proxies::{ForwardedField, ProxyOptions, ProxyProtocol};
pub(crate) use self::services::check_uri_prefix;
pub use self::services::{DemoServices, FileOptions, ServiceOptions};
pub use self::tcp::{StdioOptions, TcpOptions, Utf8CloseCode, WebSocketOptions};
pub use self::tls::{ClientCertificateMode, ListenerTlsOptions};
pub use self::traces::{SecretFields, TraceOptions, TraceSampler};
pub use self::value::Ratio;
use self::value::{Choice, choice};

/// All options of the server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// The set of defaults that the other options start from.
    pub profile: Profile,
    /// MCP over TCP: newline-delimited JSON.
    pub tcp: TcpOptions,
    /// Streamable HTTP.
    pub http: HttpOptions,
    /// The endpoints of operators.
    pub admin: AdminOptions,
    /// WebSocket, on the HTTP listener.
    pub websocket: WebSocketOptions,
    /// Proxies in front of the server.
    pub proxies: ProxyOptions,
    /// TLS of TCP, HTTP and WebSocket.
    pub tls: ListenerTlsOptions,
    /// Authentication and authorization.
    pub auth: AuthOptions,
    /// Overload protection: running calls, circuit breakers, queue delay, memory pressure.
    pub overload: OverloadOptions,
    /// Rate limits of requests and connections.
    pub rate: RateOptions,
    /// The parity dialect.
    pub parity: ParityOptions,
    /// MCP over standard input and output.
    pub stdio: StdioOptions,
    /// Limits per message, request and connection.
    pub limits: LimitOptions,
    /// Shards, rings and threads.
    pub engine: EngineOptions,
    /// The content that `corelane` serves.
    pub service: ServiceOptions,
    /// Files served as resources and prompts.
    pub files: FileOptions,
    /// The server card and the entry of a registry.
    pub card: CardOptions,
    /// Servers behind this one.
    pub gateway: GatewayOptions,
    /// Logging to standard error.
    pub log: LogOptions,
    /// Spans of requests for a collector of OpenTelemetry.
    pub traces: TraceOptions,
}

options! {
    rows at |options| options;

    group PROFILE {
        /// Set of defaults to start from; tiny shrinks every limit, for tests.
        #[option("profile", Choice(Profile::NAMES), reload)]
        #[cost = "none"]
        profile;
    }
}

choice! {
    /// A set of defaults.
    #[non_exhaustive]
    pub enum Profile {
        /// For production.
        #[default]
        Standard = "standard",
        /// Small limits that tests can reach: [`Options::tiny`].
        Tiny = "tiny",
    }
}

impl Options {
    /// Returns how many threads one kind of work in the background has: one for two shards, so that
    /// shards and calls have the other CPUs.
    pub(super) fn background_threads(&self) -> usize {
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        self.engine.shards.map_or_else(cpus, usize::from) / 2
    }

    /// Returns the defaults of `profile`.
    pub fn for_profile(profile: Profile) -> Self {
        match profile {
            Profile::Standard => Self::default(),
            Profile::Tiny => Self::tiny(),
        }
    }

    /// Returns options with limits that a test reaches in microseconds, and listeners on free
    /// ports.
    pub fn tiny() -> Self {
        Self {
            profile: Profile::Tiny,
            tcp: TcpOptions::tiny(),
            http: HttpOptions::tiny(),
            admin: AdminOptions::tiny(),
            websocket: WebSocketOptions::tiny(),
            proxies: ProxyOptions::tiny(),
            tls: ListenerTlsOptions::tiny(),
            auth: AuthOptions::tiny(),
            overload: OverloadOptions::tiny(),
            rate: RateOptions::tiny(),
            parity: ParityOptions::tiny(),
            stdio: StdioOptions::tiny(),
            limits: LimitOptions::tiny(),
            engine: EngineOptions::tiny(),
            service: ServiceOptions::tiny(),
            files: FileOptions::tiny(),
            card: CardOptions::tiny(),
            gateway: GatewayOptions::tiny(),
            log: LogOptions::tiny(),
            traces: TraceOptions::tiny(),
        }
    }

    /// Returns the demo services that are offered: [`DemoServices::Auto`] is resolved.
    #[doc(hidden)]
    pub const fn demo_services(&self) -> DemoServices {
        match self.service.demo {
            DemoServices::Auto
                if self.files.resources.is_some() || self.files.prompts.is_some() =>
            {
                DemoServices::Off
            }
            DemoServices::Auto => DemoServices::Basic,
            chosen => chosen,
        }
    }

    /// Returns the listeners that other machines reach and that authenticate nothing, with the keys
    /// of their addresses; none with `auth.insecure_public`.
    #[cfg(feature = "cli")]
    pub(crate) fn unprotected(&self) -> Vec<(&'static str, SocketAddr)> {
        let tls = &self.tls;
        let has_certificates = |is_encrypted| {
            is_encrypted && tls.client_certificates == ClientCertificateMode::Required
        };
        let has_auth = self.auth.is_enabled();
        let listeners = [
            ("tcp.address", self.tcp.address, has_auth || has_certificates(tls.encrypts_tcp())),
            ("http.address", self.http.address, has_auth || has_certificates(tls.encrypts_http())),
            (
                "admin.address",
                self.admin.address,
                self.admin.token.is_some() || has_certificates(tls.encrypts_admin()),
            ),
        ];
        let open = listeners.into_iter().filter(|(_, _, is_protected)| !is_protected);
        let open = open.filter_map(|(key, address, _)| Some((key, address?)));
        open.filter(|(_, it)| !it.ip().is_loopback() && !self.auth.insecure_public).collect()
    }

    /// Returns the address of a listener that other machines reach without TLS.
    pub(crate) fn public_without_tls(&self) -> Option<SocketAddr> {
        let tls = &self.tls;
        let listeners = [
            (self.tcp.address, tls.encrypts_tcp()),
            (self.http.address, tls.encrypts_http()),
            (self.admin.address, tls.encrypts_admin()),
        ];
        let public = listeners.into_iter().filter(|(_, is_encrypted)| !is_encrypted);
        public.filter_map(|(address, _)| address).find(|address| !address.ip().is_loopback())
    }

    /// Returns the limits of one HTTP request.
    #[doc(hidden)]
    pub fn request_limits(&self) -> RequestLimits {
        RequestLimits {
            head_bytes_max: self.http.head_bytes_max,
            body_bytes_max: self.limits.message_bytes_max,
            ..RequestLimits::default()
        }
    }

    /// Returns the maximum number of open connections over all listeners, and the options that
    /// define it.
    #[doc(hidden)]
    pub fn connections_max(&self) -> (u64, &'static str) {
        let tcp = self.tcp.address.map(|_| u64::from(self.tcp.connections_max));
        let http = self.http.address.map(|_| u64::from(self.http.connections_max));
        let websocket = u64::from(self.websocket_connections_max());
        let bound = match (tcp, http, websocket > 0) {
            (Some(_), Some(_), true) => {
                "tcp.connections_max, http.connections_max and websocket.connections_max"
            }
            (Some(_), Some(_), false) => "tcp.connections_max and http.connections_max",
            (None, Some(_), true) => "http.connections_max and websocket.connections_max",
            (None, Some(_), false) => "http.connections_max",
            (_, None, _) => "tcp.connections_max",
        };
        (tcp.unwrap_or(0) + http.unwrap_or(0) + websocket, bound)
    }

    /// Returns the maximum number of open WebSocket connections; 0 without HTTP or without a path.
    fn websocket_connections_max(&self) -> u32 {
        let is_served = self.http.address.is_some() && self.websocket.path.is_some();
        if is_served { self.websocket.connections_max } else { 0 }
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

options! {
    /// Log options. Events go to standard error.
    pub struct LogOptions at |options| options.log;

    group SERVER {
        /// Least severe level of log events written to standard error.
        #[option("log.level" | "log", Choice(LogLevel::NAMES), reload)]
        #[cost = "debug writes a line per connection, at most ten a second per shard"]
        pub level: LogLevel = LogLevel::Info;

        /// Format of log lines: text, or json with one object a line.
        #[option("log.format", Choice(LogFormat::NAMES), reload)]
        #[cost = "json lines are longer"]
        pub format: LogFormat = LogFormat::Text;

        /// Bytes of log lines that wait until standard error takes them; further lines are lost and
        /// counted.
        ///
        /// Start-up lines are never lost. At the end of the process standard error has 0.5 s for
        /// what waits.
        #[option("log.queue_bytes_max", Bytes { min: 4 * KIB, max: GIB }, restart)]
        #[cost = "as much memory while standard error stalls"]
        pub queue_bytes_max: u32 = 1 << 20, tiny 1 << 16;
    }
}

choice! {
    /// The format of log lines.
    #[non_exhaustive]
    pub enum LogFormat {
        /// Time, level, message, then `key=value` for each field.
        #[default]
        Text = "text",
        /// A JSON object with `time`, `level`, `message` and the fields.
        Json = "json",
    }
}

choice! {
    /// The level of log events.
    #[non_exhaustive]
    pub enum LogLevel {
        /// Start-up lines only.
        Off = "off",
        /// Events that end the service.
        Error = "error",
        /// Events that need an operator's attention.
        Warn = "warn",
        /// Events of the process.
        #[default]
        Info = "info",
        /// Events of each connection.
        Debug = "debug",
        /// All events.
        Trace = "trace",
    }
}
