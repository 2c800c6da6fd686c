//! The server that is checked: its transport and its address.

use std::ffi::OsString;
use std::fmt::{self, Debug};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// A stream of bytes in both directions, whose reads and writes block.
pub trait Duplex: Read + Write {}

impl<T: Read + Write> Duplex for T {}

/// TLS of the connections to one server.
pub trait Tls: Debug + Send + Sync {
    /// Completes the handshake over a connected socket, whose reads and writes have a timeout, and
    /// returns the stream of plaintext. A read that times out fails as that of the socket does, and
    /// can be repeated.
    ///
    /// # Errors
    ///
    /// Why the handshake failed.
    fn open(&self, socket: TcpStream) -> io::Result<Box<dyn Duplex>>;
}

/// A host with a port, and the TLS of its connections.
#[derive(Clone, Debug)]
pub struct Address {
    /// A name, or an IP address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// TLS; `None` for connections without it.
    pub tls: Option<Arc<dyn Tls>>,
}

/// How messages reach the server.
#[derive(Clone, Debug)]
pub enum Transport {
    /// One message per line over TCP.
    Tcp(Address),
    /// One message per line over the standard streams of a program.
    Stdio {
        /// The program.
        program: OsString,
        /// Its arguments.
        arguments: Vec<OsString>,
    },
    /// One message per text message of a WebSocket.
    WebSocket {
        /// The server.
        address: Address,
        /// Path and query.
        path: String,
    },
    /// POST, and Server-Sent Events.
    Http {
        /// The server.
        address: Address,
        /// Path and query.
        path: String,
    },
}

/// The server that is checked.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its name in the report.
    pub text: String,
    /// How messages reach it.
    pub transport: Transport,
}

impl Endpoint {
    /// Returns whether messages are requests of HTTP.
    pub(crate) const fn is_http(&self) -> bool {
        matches!(self.transport, Transport::Http { .. })
    }

    /// Returns whether each connection is a program of its own.
    pub(crate) const fn is_program(&self) -> bool {
        matches!(self.transport, Transport::Stdio { .. })
    }

    /// Returns whether messages are texts of a WebSocket.
    pub(crate) const fn is_websocket(&self) -> bool {
        matches!(self.transport, Transport::WebSocket { .. })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Address {
    /// Returns the value of `Host`.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}
