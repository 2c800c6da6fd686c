//! TLS of the connections that a shard accepts, below HTTP, lines and WebSocket.
//!
//! [`TlsRing`] is a ring whose encrypted sockets send and receive plaintext: what is above it need
//! not know that a socket is encrypted. Sockets of a listener are encrypted if the listener was
//! passed to [`TlsRing::encrypt`].
//!
//! Invariants:
//!
//! - An encrypted socket sends nothing that is not encrypted, but for the one sentence for a client
//!   that does not speak TLS.
//! - Plaintext is passed on before the end of its connection. An end without `close_notify` is an
//!   error, since data may be missing (RFC 8446 section 6.1).
//! - A turn handles a bounded number of handshake messages, after the completions of open
//!   connections; a handshake that is not complete in time ends.

mod listeners;
mod pending;

mod handshake_counts;

mod sockets;

mod ring;

pub use self::listeners::{TlsCounters, TlsLimits, TlsSlot};
pub use self::ring::TlsRing;
