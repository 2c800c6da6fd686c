//! Which server a run is aimed at, and how it is spoken to.

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
         ws://HOST[:PORT]/PATH or stdio:COMMAND"
    )]
    Scheme(String),
    /// The address does not read as one.
    #[error("'{0}' is no address: {1}")]
    Address(String, String),
    /// The command does not read as one.
    #[error("'{0}' is no command: {1}")]
    Command(String, String),
    /// TLS is asked for.
    #[error("'{0}': TLS is not supported yet; put a plain listener beside the TLS one")]
    Tls(String),
}

impl Target {
    /// What carries the messages.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Address { transport, .. } => *transport,
            Self::Command(_) => Transport::Stdio,
        }
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
        let (transport, port) = match uri.scheme_str() {
            Some("tcp") => (Transport::Tcp, None),
            Some("http") => (Transport::Http, Some(80)),
            Some("ws") => (Transport::WebSocket, Some(80)),
            Some("https" | "wss") => return Err(Untargeted::Tls(text.into())),
            _ => return Err(Untargeted::Scheme(text.into())),
        };
        let host = uri.host().ok_or_else(|| wrong("there is no host"))?;
        let port = uri.port_u16().or(port).ok_or_else(|| wrong("there is no port"))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = match (transport, path) {
            (Transport::Http, "/") => "/mcp",
            (Transport::WebSocket, "/") => "/mcp/ws",
            (_, path) => path,
        };
        Ok(Self::Address { transport, authority: format!("{host}:{port}"), path: path.into() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { transport: Transport::Tcp, authority, .. } => {
                write!(formatter, "tcp://{authority}")
            }
            Self::Address { transport, authority, path } => {
                let scheme = if *transport == Transport::Http { "http" } else { "ws" };
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
    fn what_names_no_server_says_what_to_write() {
        assert!(shown("127.0.0.1:8888").contains("tcp://HOST:PORT"));
        assert!(shown("ftp://x:1").contains("names no transport"));
        assert!(shown("tcp://127.0.0.1").contains("no port"));
        assert!(shown("https://example.org").contains("TLS"));
        assert!(shown("stdio:  ").contains("no program"));
        assert!(shown("stdio:'' x").contains("no program"));
        assert!(shown("stdio:sh -c 'exit").contains("a quote does not end"));
    }
}
