//! What stands for TLS without the feature `tls`: no [`TlsClient`] can be created.

use std::convert::Infallible;
use std::marker::PhantomData;

use corelane_engine::stream::ByteFilter;

use super::error::TlsError;
use super::pin::Pin;

/// Why no client is created.
const DISABLED: &str = "this program was built without TLS: enable its feature `tls` or `tls-ring`";

/// There is none.
#[derive(Clone, Debug)]
pub enum TlsClient {}

/// What a [`TlsClient`] would be created from.
#[derive(Debug)]
pub struct TlsClientOptions<'a> {
    /// Name or address of the server.
    pub server_name: &'a str,
    /// The server speaks HTTP.
    pub is_http: bool,
    /// Which certificates are accepted.
    pub trust: Trust,
    /// Pins of the public key of the server.
    pub pins: &'a [Pin],
    /// The certificate of the client.
    pub identity: Option<Identity>,
}

impl TlsClient {
    /// Fails.
    pub fn new(_: TlsClientOptions<'_>) -> Result<Self, String> {
        Err(DISABLED.to_owned())
    }
}

/// Trusted certificates, of which none is read.
#[derive(Clone, Debug)]
pub struct Roots;

impl Roots {
    /// Fails.
    pub fn from_pem(_: &[u8], _: &str) -> Result<Self, String> {
        Err(DISABLED.to_owned())
    }

    /// Returns these.
    #[must_use]
    pub fn with(&self, _: &Self) -> Self {
        self.clone()
    }
}

/// Which certificates of servers would be accepted.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those of these authorities.
    Roots(Roots),
}

/// There is none.
#[derive(Debug)]
pub enum Identity {}

impl Identity {
    /// Fails.
    pub fn from_pem(_: (&[u8], &str), _: (&[u8], &str)) -> Result<Self, String> {
        Err(DISABLED.to_owned())
    }

    /// Cannot be called.
    pub const fn expires_at(&self) -> Option<i64> {
        match *self {}
    }
}

/// There is none.
#[derive(Debug)]
pub enum OcspStaple {}

impl OcspStaple {
    /// Fails.
    pub fn from_der(_: Vec<u8>, _: &str) -> Result<Self, String> {
        Err(DISABLED.to_owned())
    }
}

/// Memory of connections, of which there is none.
#[derive(Debug, Default)]
pub struct TlsScratch {
    /// Decrypted data.
    pub plaintext: Vec<u8>,
}

/// The client's end of a connection.
#[derive(Debug)]
pub enum ClientSide {}

/// The server's end of a connection.
#[derive(Debug)]
pub enum ServerSide {}

impl ServerSide {
    /// Cannot be called.
    pub const fn is_resumed(&self) -> bool {
        match *self {}
    }

    /// Cannot be called.
    pub const fn client_certificate(&self) -> Option<&[u8]> {
        match *self {}
    }
}

/// There is none.
#[derive(Debug)]
pub struct TlsFilter<S = ClientSide> {
    never: Infallible,
    side: PhantomData<S>,
}

impl TlsFilter {
    /// Cannot be called.
    pub const fn new(client: &TlsClient) -> Result<Self, TlsError> {
        match *client {}
    }
}

impl TlsFilter<ServerSide> {
    /// Cannot be called.
    pub const fn accept(server: &TlsServer) -> Result<Self, TlsError> {
        match server.never {}
    }

    /// Cannot be called.
    pub const fn handshake(&self) -> &ServerSide {
        match self.never {}
    }
}

impl<S> TlsFilter<S> {
    /// Cannot be called.
    pub const fn has_output(&self) -> bool {
        match self.never {}
    }

    /// Cannot be called.
    pub const fn is_open(&self) -> bool {
        match self.never {}
    }

    /// Cannot be called.
    pub const fn is_closed(&self) -> bool {
        match self.never {}
    }

    /// Cannot be called.
    pub const fn receive(&mut self, _: &[u8], _: &mut TlsScratch) -> Result<(), TlsError> {
        match self.never {}
    }

    /// Cannot be called.
    pub const fn encrypt(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), TlsError> {
        match self.never {}
    }

    /// Cannot be called.
    pub const fn close(&mut self, _: &mut Vec<u8>) {
        match self.never {}
    }
}

impl<S> ByteFilter for TlsFilter<S> {
    type Error = TlsError;

    const TRUNCATED: &'static str = DISABLED;

    fn decode(&mut self, _: &mut [u8], _: &mut Vec<u8>) -> Result<Option<usize>, TlsError> {
        match self.never {}
    }

    fn encode(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), TlsError> {
        match self.never {}
    }

    fn close(&mut self, _: &mut Vec<u8>) {
        match self.never {}
    }

    fn discard_output(&mut self) {
        match self.never {}
    }

    fn has_output(&self) -> bool {
        match self.never {}
    }

    fn is_established(&self) -> bool {
        match self.never {}
    }

    fn can_send(&self) -> bool {
        match self.never {}
    }

    fn has_ended(&self) -> bool {
        match self.never {}
    }
}

/// There is none.
#[derive(Clone, Debug)]
pub struct TlsServer {
    never: Infallible,
}

/// What a [`TlsServer`] would be created from.
#[derive(Debug)]
pub struct TlsServerOptions {
    /// Certificates.
    pub identities: Vec<(Identity, Option<OcspStaple>)>,
    /// Whether clients have certificates.
    pub clients: ClientCertificates,
    /// Keys of tickets.
    pub tickets: TicketKeys,
}

impl TlsServer {
    /// Fails.
    pub fn new(_: TlsServerOptions) -> Result<Self, String> {
        Err(DISABLED.to_owned())
    }

    /// Cannot be called.
    #[must_use]
    pub const fn for_http(&self) -> Self {
        match self.never {}
    }
}

/// Whether a server would ask for certificates.
#[derive(Debug)]
pub enum ClientCertificates {
    /// No.
    Off,
    /// Clients without one are served.
    Asked(TrustedClients),
    /// Clients without one are not served.
    Required(TrustedClients),
}

/// Which certificates of clients would be accepted.
#[derive(Debug)]
pub struct TrustedClients {
    /// Authorities.
    pub roots: Roots,
    /// Revoked ones.
    pub revoked: Vec<Revocations>,
}

/// There are none.
#[derive(Debug)]
pub enum Revocations {}

impl Revocations {
    /// Fails.
    pub fn from_pem(_: &[u8], _: &str) -> Result<Self, String> {
        Err(DISABLED.to_owned())
    }
}

/// Keys, of which none is read.
#[derive(Clone, Debug)]
pub struct TicketKeys;

impl TicketKeys {
    /// Fails.
    pub fn random() -> Result<Self, String> {
        Err(DISABLED.to_owned())
    }

    /// Fails.
    pub fn from_texts<'a>(
        _: impl IntoIterator<Item = (&'a [u8], &'a str)>,
    ) -> Result<Self, String> {
        Err(DISABLED.to_owned())
    }
}
