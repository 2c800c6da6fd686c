//! Which server a run is aimed at, and how it is spoken to.
//!
//! | written | carried by | encrypted | port | path |
//! | --- | --- | --- | --- | --- |
//! | `tcp://HOST:PORT` | lines | no | | |
//! | `tls://HOST:PORT` | lines | yes | | |
//! | `http://HOST[:PORT][/PATH]` | HTTP | no | 80 | `/mcp` |
//! | `https://HOST[:PORT][/PATH]` | HTTP | yes | 443 | `/mcp` |
//! | `ws://HOST[:PORT][/PATH]` | WebSocket | no | 80 | `/mcp/ws` |
//! | `wss://HOST[:PORT][/PATH]` | WebSocket | yes | 443 | `/mcp/ws` |
//! | `stdio:COMMAND` | lines | no | | |

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use http::Uri;

/// What carries the messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transport {
    /// Lines of JSON over a connection.
    Tcp,
    /// Posts over connections that are kept.
    Http,
    /// Text frames over connections.
    WebSocket,
    /// Lines of JSON over the standard streams of a program that is started for it.
    Stdio,
}

impl Transport {
    /// The word for it in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Http => "http",
            Self::WebSocket => "websocket",
            Self::Stdio => "stdio",
        }
    }
}

/// How requests say which protocol they speak.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// Each request says everything in its `_meta` (2026-07-28).
    #[default]
    Modern,
    /// A session is opened first (2025-11-25).
    Legacy,
}

impl Era {
    /// The revision that is spoken.
    pub const fn revision(self) -> &'static str {
        match self {
            Self::Modern => "2026-07-28",
            Self::Legacy => "2025-11-25",
        }
    }

    /// The word for it in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        }
    }
}

/// A server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// One that listens.
    Address {
        /// What carries the messages.
        transport: Transport,
        /// Whether TLS lies between the two.
        is_encrypted: bool,
        /// Its name as it was written, with the port: what `Host` says.
        authority: String,
        /// The path of the endpoint, with its query.
        path: String,
    },
    /// A program, with its arguments: words as a shell reads them, quotes included, but nothing is
    /// expanded.
    Command(Vec<String>),
}

/// Why a text names no server.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Untargeted {
    /// No transport is called that.
    #[error(
        "'{0}' names no transport: write tcp://HOST:PORT, http://HOST[:PORT]/PATH, \
         ws://HOST[:PORT]/PATH, the same with TLS as tls://, https:// and wss://, or stdio:COMMAND"
    )]
    Scheme(String),
    /// A name and a password stand before the host. They would be in every result.
    #[error(
        "an address holds no name and password: write --header 'Authorization: …' or --bearer-file"
    )]
    Credentials,
    /// The address does not read as one.
    #[error("'{0}' is no address: {1}")]
    Address(String, String),
    /// The command does not read as one.
    #[error("'{0}' is no command: {1}")]
    Command(String, String),
}

impl Target {
    /// What carries the messages.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Address { transport, .. } => *transport,
            Self::Command(_) => Transport::Stdio,
        }
    }

    /// Whether TLS lies between it and the load.
    pub const fn is_encrypted(&self) -> bool {
        matches!(self, Self::Address { is_encrypted: true, .. })
    }

    /// Its name or address without the port and without brackets: what a certificate is to be for.
    pub fn host(&self) -> Option<&str> {
        let Self::Address { authority, .. } = self else { return None };
        let (host, _) = authority.rsplit_once(':')?;
        Some(host.trim_start_matches('[').trim_end_matches(']'))
    }

    /// The addresses that its name has.
    ///
    /// # Errors
    ///
    /// What the resolver says, with the name.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, Untargeted> {
        let Self::Address { authority, .. } = self else { return Ok(Vec::new()) };
        let wrong = |why: String| Untargeted::Address(authority.clone(), why);
        let found = authority.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
        let addresses: Vec<SocketAddr> = found.collect();
        if addresses.is_empty() { Err(wrong("it has no address".into())) } else { Ok(addresses) }
    }
}

impl FromStr for Target {
    type Err = Untargeted;

    fn from_str(text: &str) -> Result<Self, Untargeted> {
        if let Some(command) = text.strip_prefix("stdio:") {
            let wrong = |why: &str| Untargeted::Command(text.into(), why.into());
            let words = shlex::split(command).ok_or_else(|| wrong("a quote does not end"))?;
            let is_named = words.first().is_some_and(|word| !word.is_empty());
            return if is_named {
                Ok(Self::Command(words))
            } else {
                Err(wrong("there is no program; write stdio:PROGRAM ARGUMENT…"))
            };
        }
        let wrong = |why: &str| Untargeted::Address(text.into(), why.into());
        let uri: Uri = text.parse().map_err(|error| wrong(&format!("{error}")))?;
        let (transport, is_encrypted, port) = match uri.scheme_str() {
            Some("tcp") => (Transport::Tcp, false, None),
            Some("tls") => (Transport::Tcp, true, None),
            Some("http") => (Transport::Http, false, Some(80)),
            Some("https") => (Transport::Http, true, Some(443)),
            Some("ws") => (Transport::WebSocket, false, Some(80)),
            Some("wss") => (Transport::WebSocket, true, Some(443)),
            _ => return Err(Untargeted::Scheme(text.into())),
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(Untargeted::Credentials);
        }
        let host = uri.host().ok_or_else(|| wrong("there is no host"))?;
        let port = uri.port_u16().or(port).ok_or_else(|| wrong("there is no port"))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = match (transport, path) {
            (Transport::Http, "/") => "/mcp",
            (Transport::WebSocket, "/") => "/mcp/ws",
            (_, path) => path,
        };
        let authority = format!("{host}:{port}");
        Ok(Self::Address { transport, is_encrypted, authority, path: path.into() })
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
            Self::Command(words) => {
                // A word with a zero byte, which no program can be given, is the only one that
                // cannot be quoted.
                let shown = shlex::try_join(words.iter().map(String::as_str));
                write!(formatter, "stdio:{}", shown.unwrap_or_else(|_| words.join(" ")))
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
    fn each_transport_is_named_by_its_scheme_and_has_its_path() {
        assert_eq!(shown("tcp://127.0.0.1:8888"), "tcp://127.0.0.1:8888");
        assert_eq!(shown("http://localhost:8080"), "http://localhost:8080/mcp");
        assert_eq!(shown("http://example.org/api?x=1"), "http://example.org:80/api?x=1");
        assert_eq!(shown("ws://[::1]:8080"), "ws://[::1]:8080/mcp/ws");
        assert_eq!(shown("stdio:corelane  stdio"), "stdio:corelane stdio");
    }

    #[test]
    fn the_words_of_a_command_are_those_that_a_shell_reads() {
        let text = r#"stdio:sh -c 'echo "two words"' "a \"b\"" c\ d $HOME"#;
        let target: Target = text.parse().unwrap();
        let words = ["sh", "-c", "echo \"two words\"", "a \"b\"", "c d", "$HOME"];
        assert_eq!(target, Target::Command(words.map(String::from).to_vec()));
        assert_eq!(target.to_string().parse(), Ok(target));
    }

    #[test]
    fn the_same_with_tls_has_schemes_and_ports_of_its_own() {
        assert_eq!(shown("tls://127.0.0.1:8888"), "tls://127.0.0.1:8888");
        assert_eq!(shown("https://example.org"), "https://example.org:443/mcp");
        assert_eq!(shown("wss://[::1]"), "wss://[::1]:443/mcp/ws");
        let target: Target = "wss://[::1]".parse().unwrap();
        assert_eq!((target.is_encrypted(), target.host()), (true, Some("::1")));
        let target: Target = "ws://example.org".parse().unwrap();
        assert_eq!((target.is_encrypted(), target.host()), (false, Some("example.org")));
    }

    #[test]
    fn what_names_no_server_says_what_to_write() {
        assert!(shown("127.0.0.1:8888").contains("tcp://HOST:PORT"));
        assert!(shown("ftp://x:1").contains("names no transport"));
        assert!(shown("tcp://127.0.0.1").contains("no port"));
        assert!(shown("stdio:  ").contains("no program"));
        assert!(shown("stdio:'' x").contains("no program"));
        assert!(shown("stdio:sh -c 'exit").contains("a quote does not end"));
        assert!(shown("tls://127.0.0.1").contains("no port"));
        let named = shown("https://me:s3cr3t@example.org");
        assert!(named.contains("--header") && !named.contains("s3cr3t"), "{named}");
    }
}
