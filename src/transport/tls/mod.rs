//! TLS of a client: ciphertext to plaintext and back, without a socket. The only module that uses
//! rustls, with the cryptography of aws-lc-rs.
//!
//! A [`TlsClient`] has what the connections to one server share: the trusted certificates and the
//! sessions to resume. A [`TlsFilter`] is one connection; [`TlsStream`] runs it over a stream that
//! blocks. TLS 1.3 (RFC 8446) and 1.2 (RFC 5246).
//!
//! Without the feature `tls` no [`TlsClient`] can be created.

mod pin;

mod error;

#[cfg(feature = "tls")]
mod trust;
#[cfg(feature = "tls")]
mod verifier;

#[cfg(feature = "tls")]
mod client;

#[cfg(feature = "tls")]
mod filter;

#[cfg(not(feature = "tls"))]
mod disabled;

mod stream;

#[cfg(feature = "tls")]
pub use self::client::{TlsClient, TlsClientOptions};
#[cfg(not(feature = "tls"))]
pub use self::disabled::{
    ClientIdentity, Roots, TlsClient, TlsClientOptions, TlsFilter, TlsScratch, Trust,
};
pub use self::error::{TlsError, TlsErrorKind};
#[cfg(feature = "tls")]
pub use self::filter::{TlsFilter, TlsScratch};
pub use self::pin::Pin;
pub use self::stream::TlsStream;
#[cfg(feature = "tls")]
pub use self::trust::{ClientIdentity, Roots, Trust};
