//! TLS: ciphertext to plaintext and back, without a socket. The only module that uses rustls, with
//! the cryptography of aws-lc-rs (feature `tls`) or ring (feature `tls-ring`).
//!
//! A [`TlsClient`] has what the connections to one server share: the trusted certificates and the
//! sessions to resume. A [`TlsServer`] has what the connections of a listener share: certificates,
//! and which clients are trusted. A [`TlsFilter`] is one connection of either; [`TlsStream`] runs
//! that of a client over a stream that blocks. TLS 1.3 (RFC 8446) and 1.2 (RFC 5246).
//!
//! Without one of these features neither can be created: whatever reads a certificate or a key
//! returns an error that says so.

#![forbid(unsafe_code)]

mod der;
mod provider;

mod trust;

mod error;

mod client;
mod tickets;

mod server;

mod side;

mod filter;

mod stream;

pub use self::client::{TlsClient, TlsClientOptions};
pub use self::error::{TlsError, TlsErrorKind};
pub use self::filter::{TlsFilter, TlsScratch};
pub use self::server::{
    ClientCertificates, OcspStaple, Revocations, TlsServer, TlsServerOptions, TrustedClients,
};
pub use self::side::{KEYS_BYTES, ServerSide};
pub use self::stream::TlsStream;
pub use self::tickets::TicketKeys;
pub use self::trust::{Identity, Pin, Roots, Trust};
