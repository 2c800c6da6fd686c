//! The two ends of a TLS connection: what differs between client and server.

use corelane_base::heap_bytes::ALLOCATION_BYTES;
use rustls::CommonState;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::UnbufferedStatus;
use rustls::{Error, HandshakeKind};

use super::client::TlsClient;
use super::error::TlsError;
use super::server::TlsServer;

/// One end of a TLS connection.
pub trait Side {
    /// The data of rustls about this end.
    type Data;

    /// What is wrong with a connection that the peer ends without `close_notify`.
    const TRUNCATED: &'static str;

    /// Processes the records at the beginning of `records`.
    fn process<'c, 'i>(&'c mut self, records: &'i mut [u8])
    -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// Returns whether messages wait to be encoded.
    fn wants_write(&self) -> bool;

    /// The handshake has received and encoded messages of so many bytes.
    fn record_messages(&mut self, received: usize, encoded: usize);

    /// The handshake is complete.
    fn record_open(&mut self);

    /// Returns the bytes on the heap that it owns.
    fn held_bytes(&self) -> usize;

    /// Describes the error of a handshake.
    fn handshake_error(error: &Error) -> TlsError;

    /// Describes the error of an open connection.
    fn connection_error(error: &Error) -> TlsError;
}

/// The client's end of a connection.
pub struct ClientSide {
    connection: UnbufferedClientConnection,
    client: TlsClient,
}

/// The server's end of a connection.
pub struct ServerSide {
    connection: UnbufferedServerConnection,
    /// rustls keeps the messages of the handshake, to verify the signature of the client.
    keeps_messages: bool,
    /// The messages of the handshake that are kept, then the certificates of the client.
    kept_bytes: usize,
    /// The rest of what is on the heap.
    state_bytes: usize,
}

impl ClientSide {
    /// Creates it; fails if the system has no random bytes.
    pub(super) fn new(client: &TlsClient) -> Result<Self, TlsError> {
        let connection =
            UnbufferedClientConnection::new(client.config.clone(), client.name.clone());
        Ok(Self {
            connection: connection.map_err(|error| TlsError::from_handshake(&error))?,
            client: client.clone(),
        })
    }
}

#[cfg(feature = "_tls")]
#[cfg(test)]
impl ClientSide {
    /// Returns how the handshake was done.
    pub(super) fn handshake_kind(&self) -> Option<HandshakeKind> {
        self.connection.handshake_kind()
    }
}

impl Side for ClientSide {
    type Data = ClientConnectionData;

    const TRUNCATED: &'static str = "the server closed the TLS connection without close_notify";

    #[inline]
    fn process<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.connection.process_tls_records(records)
    }

    fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    fn record_messages(&mut self, _: usize, _: usize) {}

    fn record_open(&mut self) {
        self.client.record_negotiated(|| describe(&self.connection));
    }

    /// 0: a client has no account.
    fn held_bytes(&self) -> usize {
        0
    }

    fn handshake_error(error: &Error) -> TlsError {
        TlsError::from_handshake(error)
    }

    fn connection_error(error: &Error) -> TlsError {
        TlsError::from_connection(error)
    }
}

impl ServerSide {
    /// Creates it; fails if the system has no random bytes.
    pub(super) fn new(server: &TlsServer) -> Result<Self, TlsError> {
        let connection = UnbufferedServerConnection::new(server.config.clone());
        let connection = connection.map_err(|error| TlsError::from_client_handshake(&error))?;
        let keeps_messages = server.asks_clients;
        Ok(Self { connection, keeps_messages, kept_bytes: 0, state_bytes: HELLO_BYTES })
    }

    /// Returns whether a session was resumed, by a ticket of this or of another connection.
    pub fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns the certificate of the client in DER, and behind it those of its chain that it has
    /// sent, once the handshake is complete: it was issued by an authority of
    /// [`super::TrustedClients`]. A resumed session has those of its first handshake.
    pub fn client_certificates(&self) -> Option<Box<[u8]>> {
        let chain = self.connection.peer_certificates()?.iter();
        let chain: Vec<u8> = chain.flat_map(|certificate| certificate.iter().copied()).collect();
        (!chain.is_empty()).then(|| chain.into())
    }
}

impl Side for ServerSide {
    type Data = ServerConnectionData;

    const TRUNCATED: &'static str = "the client closed the TLS connection without close_notify";

    #[inline]
    fn process<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.connection.process_tls_records(records)
    }

    fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    fn record_messages(&mut self, received: usize, encoded: usize) {
        if encoded > 0 {
            self.state_bytes = ANSWERED_BYTES;
        }
        if self.keeps_messages {
            // Their buffer has doubled.
            self.kept_bytes += 2 * (received + encoded);
        }
    }

    fn record_open(&mut self) {
        let chain = self.connection.peer_certificates().unwrap_or_default();
        self.kept_bytes =
            chain.iter().map(|it| size_of_val(it) + ALLOCATION_BYTES + it.len()).sum();
        self.state_bytes = OPEN_BYTES;
    }

    fn held_bytes(&self) -> usize {
        self.state_bytes + self.kept_bytes
    }

    fn handshake_error(error: &Error) -> TlsError {
        TlsError::from_client_handshake(error)
    }

    fn connection_error(error: &Error) -> TlsError {
        TlsError::from_client_connection(error)
    }
}

/// What the keys of a connection take on the heap of aws-lc, which is written in C: measured as the
/// difference of `mallinfo2` and of the allocations of Rust.
pub const KEYS_BYTES: usize = 1_400;

// What rustls has on the heap for a connection of a server, as measured by `tests/alloc`.

/// Before the first message of the client is complete.
const HELLO_BYTES: usize = 780;
/// From the answer to it on.
const ANSWERED_BYTES: usize = 1_340 + KEYS_BYTES;
/// Once the handshake is complete.
const OPEN_BYTES: usize = 1_200 + KEYS_BYTES;

/// Returns version and cipher suite.
fn describe(connection: &CommonState) -> String {
    let version = connection.protocol_version().and_then(|version| version.as_str());
    let version = version.unwrap_or("TLS").replacen("TLSv", "TLS ", 1).replace('_', ".");
    let suite = connection.negotiated_cipher_suite();
    let suite = suite.map(|suite| format!(" {:?}", suite.suite())).unwrap_or_default();
    version + &suite
}
