//! What stands for TLS without the feature `tls`: no [`TlsClient`] can be created.

use super::error::TlsError;
use super::pin::Pin;

/// Why no client is created.
const DISABLED: &str = "this program was built without TLS: enable the feature `tls` of corelane";

/// There is none.
#[derive(Clone, Debug)]
pub enum TlsClient {}

/// What a [`TlsClient`] would be created from.
#[derive(Debug)]
#[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "nothing is created from it"))]
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
    pub identity: Option<ClientIdentity>,
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
pub enum ClientIdentity {}

impl ClientIdentity {
    /// Fails.
    pub fn from_pem(_: (&[u8], &str), _: (&[u8], &str)) -> Result<Self, String> {
        Err(DISABLED.to_owned())
    }
}

/// Memory of connections, of which there is none.
#[derive(Debug, Default)]
pub struct TlsScratch {
    /// Decrypted data.
    pub plaintext: Vec<u8>,
}

/// There is none.
#[derive(Debug)]
pub enum TlsFilter {}

impl TlsFilter {
    /// Cannot be called.
    pub const fn new(client: &TlsClient) -> Result<Self, TlsError> {
        match *client {}
    }

    /// Cannot be called.
    pub const fn is_open(&self) -> bool {
        match *self {}
    }

    /// Cannot be called.
    pub const fn is_closed(&self) -> bool {
        match *self {}
    }

    /// Cannot be called.
    pub const fn receive(&mut self, _: &[u8], _: &mut TlsScratch) -> Result<(), TlsError> {
        match *self {}
    }

    /// Cannot be called.
    pub const fn encrypt(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), TlsError> {
        match *self {}
    }

    /// Cannot be called.
    pub const fn close(&mut self, _: &mut Vec<u8>) {
        match *self {}
    }
}
