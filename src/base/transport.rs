//! The transports that carry MCP.

use std::fmt;

/// A transport of the server.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Transport {
    /// HTTP, including event streams.
    Http,
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
            Self::Stdio => "stdio",
            Self::Tcp => "tcp",
            Self::WebSocket => "websocket",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
