//! The server under test: its address or command, and the transport to it.
//!
//! | target | transport | TLS | default port | default path |
//! | --- | --- | --- | --- | --- |
//! | `tcp://HOST:PORT` | lines | no | | |
//! | `tls://HOST:PORT` | lines | yes | | |
//! | `http://HOST[:PORT][/PATH]` | HTTP | no | 80 | `/mcp` |
//! | `https://HOST[:PORT][/PATH]` | HTTP | yes | 443 | `/mcp` |
//! | `ws://HOST[:PORT][/PATH]` | WebSocket | no | 80 | `/mcp/ws` |
//! | `wss://HOST[:PORT][/PATH]` | WebSocket | yes | 443 | `/mcp/ws` |
//! | `stdio:COMMAND` | lines | no | | |
//!
//! Without a scheme the target is HTTP. The default path of HTTP for the parity dialect is
//! `/parity`.

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use corelane_client::{ClientError, IntoTarget, Program};
use corelane_protocol::revision::Revision;
use http::Uri;

use crate::children::EXIT_TIMEOUT;

/// How long one of several addresses has to accept a connection.
const PROBE_TIMEOUT: Duration = Duration::from_millis(250);

/// Transport of MCP messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transport {
    /// Newline-delimited JSON over TCP.
    Tcp,
    /// Streamable HTTP over persistent connections.
    Http,
    /// WebSocket text frames.
    WebSocket,
    /// Newline-delimited JSON over standard input and output of a child process.
    Stdio,
}

impl Transport {
    /// Returns the name used in reports and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Http => "http",
            Self::WebSocket => "websocket",
            Self::Stdio => "stdio",
        }
    }
}

/// MCP protocol version, or the parity dialect. Decides how a connection begins.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub enum Era {
    /// Each request carries its protocol version and capabilities in `_meta` (2026-07-28).
    #[default]
    #[serde(rename = "modern", alias = "2026-07-28")]
    Modern,
    /// A session begins with `initialize` (2025-11-25).
    #[serde(rename = "legacy", alias = "2025-11-25")]
    Legacy,
    /// Legacy, of version 2025-06-18.
    #[serde(rename = "2025-06-18")]
    LegacyJune2025,
    /// Legacy, of version 2025-03-26.
    #[serde(rename = "2025-03-26")]
    LegacyMarch2025,
    /// Legacy, of version 2024-11-05.
    #[serde(rename = "2024-11-05")]
    LegacyNovember2024,
    /// The parity dialect: a session begins with `handshake`. Methods, params and results are those
    /// of 2025-11-25.
    #[serde(rename = "parity")]
    Parity,
}

impl Era {
    /// The versions of MCP, the newest first, then the parity dialect.
    pub const ALL: [Self; 6] = [
        Self::Modern,
        Self::Legacy,
        Self::LegacyJune2025,
        Self::LegacyMarch2025,
        Self::LegacyNovember2024,
        Self::Parity,
    ];

    /// Returns the revision of MCP, which defines methods, params and results.
    pub const fn revision(self) -> Revision {
        match self {
            Self::Modern => Revision::V2026_07_28,
            Self::Legacy | Self::Parity => Revision::V2025_11_25,
            Self::LegacyJune2025 => Revision::V2025_06_18,
            Self::LegacyMarch2025 => Revision::V2025_03_26,
            Self::LegacyNovember2024 => Revision::V2024_11_05,
        }
    }

    /// Returns the MCP protocol version.
    pub const fn mcp_version(self) -> &'static str {
        self.revision().as_str()
    }

    /// Returns the version named `text`: `modern`, `legacy`, `parity`, or an MCP protocol version.
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|era| text == era.name() || text == era.mcp_version())
    }

    /// Returns whether requests carry their protocol version, instead of a handshake.
    pub const fn is_modern(self) -> bool {
        matches!(self, Self::Modern)
    }

    /// Returns whether messages are those of the parity dialect.
    pub const fn is_parity(self) -> bool {
        matches!(self, Self::Parity)
    }

    /// Returns the default path of the endpoint over HTTP.
    const fn http_path(self) -> &'static str {
        if self.is_parity() { "/parity" } else { "/mcp" }
    }

    /// Returns the name used in reports and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
            Self::Parity => "parity",
            older => older.mcp_version(),
        }
    }
}

impl From<Revision> for Era {
    fn from(revision: Revision) -> Self {
        match revision {
            Revision::V2026_07_28 => Self::Modern,
            Revision::V2025_11_25 => Self::Legacy,
            Revision::V2025_06_18 => Self::LegacyJune2025,
            Revision::V2025_03_26 => Self::LegacyMarch2025,
            Revision::V2024_11_05 => Self::LegacyNovember2024,
        }
    }
}

/// The server under test.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// A listening server.
    Address {
        /// Transport of MCP messages.
        transport: Transport,
        /// Whether the connection uses TLS.
        is_encrypted: bool,
        /// Host as written, with the port; sent as `Host`.
        authority: String,
        /// Path of the endpoint, with its query.
        path: String,
    },
    /// A program and its arguments, split like a shell does (quotes included) without expansion.
    Command(Vec<String>),
}

/// Error of a target that cannot be parsed or resolved.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TargetError {
    /// Unknown or missing scheme.
    #[error(
        "target '{0}' has an unknown scheme: use tcp://HOST:PORT, http://HOST[:PORT]/PATH, \
         ws://HOST[:PORT]/PATH, with TLS tls://, https:// or wss://, or stdio:COMMAND"
    )]
    Scheme(String),
    /// User name and password in the address. They would appear in every result.
    #[error(
        "the target contains credentials: use --header 'Authorization: …' or --bearer-file instead"
    )]
    Credentials,
    /// Invalid address.
    #[error("invalid target address '{0}': {1}")]
    Address(String, String),
    /// Invalid command.
    #[error("invalid command in target '{0}': {1}")]
    Command(String, String),
}

impl Target {
    /// Returns the transport of MCP messages.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Address { transport, .. } => *transport,
            Self::Command(_) => Transport::Stdio,
        }
    }

    /// Returns whether the connection uses TLS.
    pub const fn is_encrypted(&self) -> bool {
        matches!(self, Self::Address { is_encrypted: true, .. })
    }

    /// Returns the host without port and brackets: the expected name in the server certificate.
    pub fn host(&self) -> Option<&str> {
        let Self::Address { authority, .. } = self else { return None };
        let (host, _) = authority.rsplit_once(':')?;
        Some(host.trim_start_matches('[').trim_end_matches(']'))
    }

    /// Resolves the host to its addresses. Of several, only those that accept a connection are
    /// returned, if there are any: a server often listens on one address of `localhost`.
    ///
    /// # Errors
    ///
    /// Returns [`TargetError::Address`] if the resolver fails or finds no address.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, TargetError> {
        let Self::Address { authority, .. } = self else { return Ok(Vec::new()) };
        let wrong = |why: String| TargetError::Address(authority.clone(), why);
        let found = authority.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
        let addresses: Vec<SocketAddr> = found.collect();
        if addresses.is_empty() {
            return Err(wrong("the host has no address".into()));
        }
        if addresses.len() == 1 {
            return Ok(addresses);
        }
        let accepts =
            |address: &&SocketAddr| TcpStream::connect_timeout(address, PROBE_TIMEOUT).is_ok();
        let accepting: Vec<SocketAddr> = addresses.iter().filter(accepts).copied().collect();
        Ok(if accepting.is_empty() { addresses } else { accepting })
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        Self::parse(text, Era::default())
    }
}

impl Target {
    /// Parses a target; `era` determines the default path.
    ///
    /// # Errors
    ///
    /// Returns an error if the scheme is unknown, or the address or command is invalid.
    pub fn parse(text: &str, era: Era) -> Result<Self, TargetError> {
        if let Some(command) = text.strip_prefix("stdio:") {
            let wrong = |why: &str| TargetError::Command(text.into(), why.into());
            let command = shlex::split(command).ok_or_else(|| wrong("unterminated quote"))?;
            let is_named = command.first().is_some_and(|word| !word.is_empty());
            return if is_named {
                Ok(Self::Command(command))
            } else {
                Err(wrong("no program given; use stdio:PROGRAM ARGUMENT…"))
            };
        }
        let wrong = |why: &str| TargetError::Address(text.into(), why.into());
        // An address alone is one of HTTP.
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = whole.parse().map_err(|error| wrong(&format!("{error}")))?;
        let (transport, is_encrypted, port) = match uri.scheme_str() {
            Some("tcp") => (Transport::Tcp, false, None),
            Some("tls") => (Transport::Tcp, true, None),
            Some("http") => (Transport::Http, false, Some(80)),
            Some("https") => (Transport::Http, true, Some(443)),
            Some("ws") => (Transport::WebSocket, false, Some(80)),
            Some("wss") => (Transport::WebSocket, true, Some(443)),
            _ => return Err(TargetError::Scheme(text.into())),
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(TargetError::Credentials);
        }
        let host = uri.host().ok_or_else(|| wrong("no host given"))?;
        let port = uri.port_u16().or(port).ok_or_else(|| wrong("no port given"))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = match (transport, path) {
            (Transport::Http, "/") => era.http_path(),
            (Transport::WebSocket, "/") => "/mcp/ws",
            (_, path) => path,
        };
        let authority = format!("{host}:{port}");
        Ok(Self::Address { transport, is_encrypted, authority, path: path.into() })
    }
}

impl IntoTarget for &Target {
    fn into_target(self) -> Result<corelane_client::Target, ClientError> {
        let Target::Command(command) = self else { return self.to_string().parse() };
        let program = Program::new(command.first().map_or("", String::as_str));
        let program = command.iter().skip(1).fold(program, Program::arg);
        Ok(program.inherit_env().exit_timeout(EXIT_TIMEOUT).into())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { transport, is_encrypted, authority, path } => {
                let (scheme, path) = match (transport, is_encrypted) {
                    (Transport::Http, false) => ("http", path.as_str()),
                    (Transport::Http, true) => ("https", path.as_str()),
                    (Transport::WebSocket, false) => ("ws", path.as_str()),
                    (Transport::WebSocket, true) => ("wss", path.as_str()),
                    (_, false) => ("tcp", ""),
                    (_, true) => ("tls", ""),
                };
                write!(formatter, "{scheme}://{authority}{path}")
            }
            Self::Command(command) => {
                // Only a word with a NUL byte, which no program can receive, cannot be quoted.
                let shown = shlex::try_join(command.iter().map(String::as_str));
                write!(formatter, "stdio:{}", shown.unwrap_or_else(|_| command.join(" ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        text.parse::<Target>().map_or_else(|error| error.to_string(), |target| target.to_string())
    }

    #[test]
    fn target_scheme_selects_transport_and_path() {
        assert_eq!(shown("tcp://127.0.0.1:8888"), "tcp://127.0.0.1:8888");
        assert_eq!(shown("http://localhost:8080"), "http://localhost:8080/mcp");
        assert_eq!(shown("localhost:8080/x"), "http://localhost:8080/x");
        assert_eq!(shown("[::1]:8080"), "http://[::1]:8080/mcp");
        assert_eq!(shown("http://example.org/api?x=1"), "http://example.org:80/api?x=1");
        assert_eq!(shown("ws://[::1]:8080"), "ws://[::1]:8080/mcp/ws");
        assert_eq!(shown("stdio:corelane  stdio"), "stdio:corelane stdio");
    }

    #[test]
    fn stdio_target_splits_words_like_shell() {
        let text = r#"stdio:sh -c 'echo "two words"' "a \"b\"" c\ d $HOME"#;
        let target: Target = text.parse().unwrap();
        let command = ["sh", "-c", "echo \"two words\"", "a \"b\"", "c d", "$HOME"];
        assert_eq!(target, Target::Command(command.map(String::from).to_vec()));
        assert_eq!(target.to_string().parse(), Ok(target));
    }

    #[test]
    fn tls_schemes_have_own_default_ports() {
        assert_eq!(shown("tls://127.0.0.1:8888"), "tls://127.0.0.1:8888");
        assert_eq!(shown("https://example.org"), "https://example.org:443/mcp");
        assert_eq!(shown("wss://[::1]"), "wss://[::1]:443/mcp/ws");
        let target: Target = "wss://[::1]".parse().unwrap();
        assert_eq!((target.is_encrypted(), target.host()), (true, Some("::1")));
        let target: Target = "ws://example.org".parse().unwrap();
        assert_eq!((target.is_encrypted(), target.host()), (false, Some("example.org")));
    }

    #[test]
    fn parity_era_has_its_own_path() {
        let target = |text| Target::parse(text, Era::Parity).unwrap().to_string();
        assert_eq!(target("http://localhost:1"), "http://localhost:1/parity");
        assert_eq!(target("http://localhost:1/x"), "http://localhost:1/x");
        assert_eq!(target("ws://localhost:1"), "ws://localhost:1/mcp/ws");
        assert_eq!(Era::named("parity"), Some(Era::Parity));
        assert_eq!(Era::named("2025-11-25"), Some(Era::Legacy));
    }

    #[test]
    fn invalid_target_error_names_the_fix() {
        assert!(shown("ftp://x:1").contains("unknown scheme"));
        assert!(shown("tcp://127.0.0.1").contains("no port"));
        assert!(shown("stdio:  ").contains("no program"));
        assert!(shown("stdio:'' x").contains("no program"));
        assert!(shown("stdio:sh -c 'exit").contains("unterminated quote"));
        assert!(shown("tls://127.0.0.1").contains("no port"));
        let named = shown("https://me:s3cr3t@example.org");
        assert!(named.contains("--header") && !named.contains("s3cr3t"), "{named}");
    }
}
