//! TLS: ciphertext to plaintext and back, without a socket. The only module that uses rustls, with
//! the cryptography of aws-lc-rs (feature `tls`) or ring (feature `tls-ring`).
//!
//! A [`TlsClient`] has what the connections to one server share: the trusted certificates and the
//! sessions to resume. A [`TlsServer`] has what the connections of a listener share: certificates,
//! and which clients are trusted. A [`TlsFilter`] is one connection of either; [`TlsStream`] runs
//! that of a client over a stream that blocks. TLS 1.3 (RFC 8446) and 1.2 (RFC 5246).
//!
//! Without one of these features neither can be created.

#![forbid(unsafe_code)]

mod pin;

mod error;

#[cfg(feature = "_tls")]
mod provider;
#[cfg(feature = "_tls")]
mod trust;
#[cfg(feature = "_tls")]
mod verifier;

#[cfg(feature = "_tls")]
mod client;
#[cfg(feature = "_tls")]
mod server;

#[cfg(feature = "_tls")]
mod side;

#[cfg(feature = "_tls")]
mod filter;

#[cfg(not(feature = "_tls"))]
mod disabled;

mod stream;

#[cfg(feature = "_tls")]
pub use self::client::{TlsClient, TlsClientOptions};
#[cfg(not(feature = "_tls"))]
pub use self::disabled::{
    ClientCertificates, Identity, OcspStaple, Revocations, Roots, ServerSide, TicketKeys,
    TlsClient, TlsClientOptions, TlsFilter, TlsScratch, TlsServer, TlsServerOptions, Trust,
    TrustedClients,
};
pub use self::error::{TlsError, TlsErrorKind};
#[cfg(feature = "_tls")]
pub use self::filter::{TlsFilter, TlsScratch};
pub use self::pin::Pin;
#[cfg(feature = "_tls")]
pub use self::server::{
    ClientCertificates, OcspStaple, Revocations, TicketKeys, TlsServer, TlsServerOptions,
    TrustedClients,
};
#[cfg(feature = "_tls")]
pub use self::side::ServerSide;
pub use self::stream::TlsStream;
#[cfg(feature = "_tls")]
pub use self::trust::{Identity, Roots, Trust};
