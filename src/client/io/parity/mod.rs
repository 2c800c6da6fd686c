//! The parity dialect on an I/O thread.

mod outbox;

mod http;

mod session;

pub(super) use self::session::Parity;
