//! What is below HTTP and lines: TLS, and how a connection ends.

mod loss;
mod partial_sends;

mod tls_streams;

pub(super) use self::loss::Loss;
pub(super) use self::tls_streams::{TlsConnection, TlsRing, TlsStreams};
