//! The transports that carry MCP.

use std::fmt;

/// A transport of the server.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Transport {
    /// HTTP, including event streams.
    Http,
    /// Messages in memory, of a client in the process of the server.
    InProcess,
    /// Standard input and output.
    Stdio,
    /// Newline-delimited JSON over TCP.
    Tcp,
    /// WebSocket.
    WebSocket,
}

impl Transport {
    /// Returns the text used in log lines and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::InProcess => "in_process",
            Self::Stdio => "stdio",
            Self::Tcp => "tcp",
            Self::WebSocket => "websocket",
        }
    }

    /// Returns whether the connection is the only one of its server, which ends with it. It is not
    /// closed because of a message or a limit.
    #[doc(hidden)]
    pub const fn is_only_connection(self) -> bool {
        matches!(self, Self::InProcess | Self::Stdio)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
