//! A connection of the client, with or without TLS.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind};

const READ_BYTES: usize = 64 << 10;

/// A blocking connection.
pub(crate) struct Stream {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Stream {
    pub(crate) fn connect(
        address: SocketAddr,
        config: Option<&Arc<ClientConfig>>,
    ) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let tls = config.map(|config| client_connection(config).map(Box::new)).transpose()?;
        Ok(Self { socket, tls })
    }

    /// Sends the messages of the handshake that are ready: first the `ClientHello`.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.write_tls(&mut self.socket).map(drop),
            None => Ok(()),
        }
    }

    /// Receives messages of the handshake until there are some to send, which it does not send.
    pub(crate) fn prepare(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while !tls.wants_write() {
            if tls.read_tls(&mut self.socket)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            tls.process_new_packets().map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Returns whether the handshake has resumed a session.
    pub(crate) fn is_resumed(&self) -> bool {
        let tls = self.tls.as_ref();
        tls.and_then(|tls| tls.handshake_kind()) == Some(HandshakeKind::Resumed)
    }

    /// Completes the handshake, and waits for the ticket.
    pub(crate) fn complete(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let is_13 = |tls: &ClientConnection| {
            tls.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3)
        };
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        while tls.is_handshaking() || (is_13(tls) && tls.tls13_tickets_received() == 0) {
            if tls.read_tls(&mut self.socket)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            tls.process_new_packets().map_err(io::Error::other)?;
            while tls.wants_write() {
                tls.write_tls(&mut self.socket)?;
            }
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return self.socket.write_all(bytes) };
        tls.writer().write_all(bytes)?;
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// Appends what arrives next, at least one byte unless TLS has messages of its own.
    pub(crate) fn receive(&mut self, received: &mut Vec<u8>) -> io::Result<()> {
        let start = received.len();
        received.resize(start + READ_BYTES, 0);
        let bytes = match &mut self.tls {
            None => self.socket.read(&mut received[start..])?,
            Some(tls) => {
                if tls.read_tls(&mut self.socket)? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                tls.process_new_packets().map_err(io::Error::other)?;
                match tls.reader().read(&mut received[start..]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                    read => read?,
                }
            }
        };
        received.truncate(start + bytes);
        if bytes == 0 && self.tls.is_none() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

/// Returns a connection in memory to `localhost`.
pub(crate) fn client_connection(config: &Arc<ClientConfig>) -> io::Result<ClientConnection> {
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)
}
