//! The scenes: what hostile peers do, and how the server is started for it.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use crate::conversation::Addresses;
use crate::credentials::{ISSUER, RESOURCE};
use crate::honest_client::{Credential, Kind};

/// Percentage of the memory of the machine at which memory is short.
const PRESSURE_PERCENT: u64 = 1;
/// Least `memory_bytes_max` of the scenes in which memory is short.
const PRESSURE_BYTES: u64 = 1 << 30;

/// A scene.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scene {
    /// No hostile peers: shows the noise of the machine.
    None,
    /// Thousands of connections over TCP that send nothing.
    SilentTcp,
    /// The same over HTTP.
    SilentHttp,
    /// The same over TLS.
    SilentTls,
    /// Thousands of TLS connections that send their `ClientHello`, and nothing more.
    HelloTls,
    /// Full TLS handshakes, one after the other.
    TlsHandshakes,
    /// Thousands of connections with half of the head of a request.
    SlowHeads,
    /// Messages of 15 MiB of which the end is missing, over each transport.
    HalfMessages,
    /// The same where each request needs a token, which they do not have.
    HalfMessagesUnproven,
    /// Requests without a token over thousands of connections, which stay open.
    Unauthorized,
    /// Requests with tokens whose signatures are wrong, each another one.
    InvalidTokens,
    /// Requests with unknown tokens, each another one, which an introspection endpoint refuses.
    UnknownTokens,
    /// The same with tokens that the endpoint does not answer for.
    HangingIntrospection,
    /// Calls with a key that is withdrawn and given back again and again, beside unknown tokens.
    WithdrawnKeys,
    /// DPoP proofs of one caller, more than are remembered.
    Proofs,
    /// Handshakes of the parity dialect over TCP and HTTP; each begins a session.
    ParityHandshakes,
    /// Idempotency keys of 32 KiB in sessions of the parity dialect.
    IdempotencyKeys,
    /// As many legacy sessions as possible.
    Sessions,
    /// Short sessions that each are a key of a rate limit.
    RateKeys,
    /// Long tasks of clients that stay connected.
    Tasks,
    /// Long tasks of clients that leave.
    LeftTasks,
    /// Tasks with large results, whose clients have left.
    TaskResults,
    /// As many subscriptions as possible.
    Subscriptions,
    /// Connections that each read one file of 8 MiB, and do not read the response.
    UnreadFiles,
    /// Responses of 8 MiB that are not read, many for each connection, over TCP.
    UnreadTcp,
    /// The same over HTTP.
    UnreadHttp,
    /// The same over WebSocket.
    UnreadWebSocket,
    /// Messages of 15 MiB in calls that end at once.
    Echoes,
    /// The same with arguments that consist of escapes.
    Escapes,
    /// Messages with as many values as possible, and with more.
    Values,
    /// Slow calls with arguments of 15 MiB.
    Arguments,
    /// `inputResponses` whose parsed form is large, in slow calls.
    InputResponses,
    /// Open elicitation requests with large texts.
    Elicitations,
    /// Peers that send a slow call and close their connection.
    SlowAndClosed,
    /// Long calls of a blocking tool.
    BlockingCalls,
    /// Responses that are not read, until the memory guard refuses new connections and large
    /// messages; then attempts to send large messages over new connections.
    MemoryPressure,
    /// The same with large messages over open connections, which the server reads and drops.
    PressureMessages,
}

/// What scripts need of the server and its machine.
#[derive(Clone, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) addresses: Addresses,
    /// That of the files of the bench.
    pub(crate) directory: &'a Path,
    pub(crate) memory_bytes_max: u64,
    /// Addresses of the hostile peers.
    pub(crate) attackers: Vec<IpAddr>,
}

/// How the server tells callers apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Authentication {
    None,
    /// API keys; each request needs one.
    ApiKeys,
    /// Tokens of an issuer; requests without one are admitted.
    Issuer,
    /// API keys, and tokens of an issuer that need proofs.
    Proofs,
    /// An introspection endpoint.
    Introspection,
}

impl Scene {
    pub(crate) const ALL: [Self; 37] = [
        Self::None,
        Self::SilentTcp,
        Self::SilentHttp,
        Self::SilentTls,
        Self::HelloTls,
        Self::TlsHandshakes,
        Self::SlowHeads,
        Self::HalfMessages,
        Self::HalfMessagesUnproven,
        Self::Unauthorized,
        Self::InvalidTokens,
        Self::UnknownTokens,
        Self::HangingIntrospection,
        Self::WithdrawnKeys,
        Self::Proofs,
        Self::ParityHandshakes,
        Self::IdempotencyKeys,
        Self::Sessions,
        Self::RateKeys,
        Self::Tasks,
        Self::LeftTasks,
        Self::TaskResults,
        Self::Subscriptions,
        Self::UnreadFiles,
        Self::UnreadTcp,
        Self::UnreadHttp,
        Self::UnreadWebSocket,
        Self::Echoes,
        Self::Escapes,
        Self::Values,
        Self::Arguments,
        Self::InputResponses,
        Self::Elicitations,
        Self::SlowAndClosed,
        Self::BlockingCalls,
        Self::MemoryPressure,
        Self::PressureMessages,
    ];

    /// Returns its name on the command line and in the tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::SilentTcp => "silent-tcp",
            Self::SilentHttp => "silent-http",
            Self::SilentTls => "silent-tls",
            Self::HelloTls => "hello-tls",
            Self::TlsHandshakes => "tls-handshakes",
            Self::SlowHeads => "slow-heads",
            Self::HalfMessages => "half-messages",
            Self::HalfMessagesUnproven => "half-messages-unproven",
            Self::Unauthorized => "unauthorized",
            Self::InvalidTokens => "invalid-tokens",
            Self::UnknownTokens => "unknown-tokens",
            Self::HangingIntrospection => "hanging-introspection",
            Self::WithdrawnKeys => "withdrawn-keys",
            Self::Proofs => "proofs",
            Self::ParityHandshakes => "parity-handshakes",
            Self::IdempotencyKeys => "idempotency-keys",
            Self::Sessions => "sessions",
            Self::RateKeys => "rate-keys",
            Self::Tasks => "tasks",
            Self::LeftTasks => "left-tasks",
            Self::TaskResults => "task-results",
            Self::Subscriptions => "subscriptions",
            Self::UnreadFiles => "unread-files",
            Self::UnreadTcp => "unread-tcp",
            Self::UnreadHttp => "unread-http",
            Self::UnreadWebSocket => "unread-websocket",
            Self::Echoes => "large-messages",
            Self::Escapes => "escapes",
            Self::Values => "values",
            Self::Arguments => "arguments",
            Self::InputResponses => "input-responses",
            Self::Elicitations => "elicitations",
            Self::SlowAndClosed => "slow-and-closed",
            Self::BlockingCalls => "blocking-calls",
            Self::MemoryPressure => "memory-pressure",
            Self::PressureMessages => "pressure-messages",
        }
    }

    /// Returns the scene of a name.
    pub(crate) fn named(name: &str) -> io::Result<Self> {
        let scene = Self::ALL.into_iter().find(|scene| scene.name() == name);
        scene.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            io::Error::other(format!("no scene {name}; the scenes are {names}"))
        })
    }

    const fn authentication(self) -> Authentication {
        match self {
            Self::HalfMessagesUnproven | Self::Unauthorized | Self::WithdrawnKeys => {
                Authentication::ApiKeys
            }
            Self::InvalidTokens => Authentication::Issuer,
            Self::UnknownTokens | Self::HangingIntrospection => Authentication::Introspection,
            Self::Proofs => Authentication::Proofs,
            _ => Authentication::None,
        }
    }

    /// Returns whether the HTTP listener is encrypted.
    pub(crate) const fn has_tls(self) -> bool {
        matches!(self, Self::SilentTls | Self::HelloTls | Self::TlsHandshakes)
    }

    /// Returns what honest clients identify themselves by.
    pub(crate) const fn credential(self) -> Credential {
        match self.authentication() {
            Authentication::None | Authentication::Issuer => Credential::None,
            Authentication::ApiKeys | Authentication::Proofs => Credential::ApiKey,
            Authentication::Introspection => Credential::Introspected,
        }
    }

    /// Returns further arguments of the server, given the directory of the files and the URL of
    /// the introspection endpoint.
    pub(crate) fn server_arguments(self, directory: &Path, introspection: &str) -> Vec<String> {
        let file = |name: &str| directory.join(name).display().to_string();
        let issuer = || {
            let keys = file("keys.json");
            format!("--auth-resource {RESOURCE} --auth-issuers {ISSUER} --auth-key-sets {keys}")
        };
        let api_keys = || format!("--auth-api-keys {}", file("api-keys.txt"));
        let mut line = match self.authentication() {
            Authentication::None => String::new(),
            Authentication::ApiKeys => api_keys(),
            Authentication::Issuer => issuer() + " --auth-anonymous true",
            Authentication::Proofs => {
                let proofs = "--auth-dpop allowed --auth-dpop-proofs-max 4096";
                format!("{} {} {proofs}", issuer(), api_keys())
            }
            Authentication::Introspection => format!(
                "--auth-resource {RESOURCE} --auth-issuers {ISSUER} \
                 --auth-introspection {introspection}"
            ),
        };
        if self.has_tls() {
            let (certificate, key) = (file("cert.pem"), file("key.pem"));
            line = format!("{line} --tls-cert {certificate} --tls-key {key} --tls-tcp false");
        }
        if self.has_memory_guard() {
            line = format!(
                "{line} --memory-guard-refuse-connections-percent {PRESSURE_PERCENT} \
                 --memory-guard-refuse-messages-percent {PRESSURE_PERCENT} \
                 --memory-guard-end-streams-percent {PRESSURE_PERCENT} \
                 --memory-guard-interval 100ms"
            );
        }
        line += match self {
            Self::SilentHttp | Self::SlowHeads | Self::Unauthorized => {
                " --http-connections-max 1000"
            }
            Self::Sessions => " --http-sessions-max 2000",
            Self::RateKeys => " --rate-keys-max 1024",
            Self::WithdrawnKeys => " --auth-check-interval 200ms",
            _ => "",
        };
        let mut arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if self == Self::RateKeys {
            let rule = "tools/call echo rate=200/s burst=200 per=session";
            arguments.extend(["--rate-rules".to_owned(), rule.to_owned()]);
        }
        arguments
    }

    /// Returns the memory limit of the server, given that of the command line.
    pub(crate) fn memory_bytes_max(self, given: u64) -> u64 {
        if self.has_memory_guard() { given.max(PRESSURE_BYTES) } else { given }
    }

    /// Returns the time until its state is reached.
    pub(crate) const fn onset(self) -> Duration {
        match self {
            Self::MemoryPressure | Self::PressureMessages => Duration::from_secs(2),
            _ => Duration::ZERO,
        }
    }

    /// Returns whether the server serves clients of this kind: the memory guard refuses new
    /// connections, and a handshake of the parity dialect does not wait for an introspection.
    pub(crate) const fn admits(self, kind: Kind) -> bool {
        match kind {
            Kind::Proof => matches!(self, Self::Proofs),
            Kind::Parity if matches!(self.authentication(), Authentication::Introspection) => false,
            _ => !self.has_memory_guard() || !kind.connects_each_time(),
        }
    }

    const fn has_memory_guard(self) -> bool {
        matches!(self, Self::MemoryPressure | Self::PressureMessages)
    }

    /// Checks that memory was short, given the largest resident memory of the server.
    pub(crate) fn check_peak(self, peak: u64) -> io::Result<()> {
        if !self.has_memory_guard() {
            return Ok(());
        }
        let machine = fs::read_to_string("/proc/meminfo")?;
        let total = machine.split_ascii_whitespace().nth(1).and_then(|text| text.parse().ok());
        let total: u64 = total.ok_or_else(|| io::Error::other("no MemTotal"))?;
        let begins_at = total * 1024 / 100 * PRESSURE_PERCENT;
        if peak >= begins_at {
            return Ok(());
        }
        let (peak, begins_at) = (peak >> 20, begins_at >> 20);
        Err(io::Error::other(format!("{peak} MiB are no pressure, {begins_at} are: use --memory")))
    }
}
