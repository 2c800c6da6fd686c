//! Servers of the parity dialect on an I/O thread.

mod http;

mod receiver;
mod sink;

mod peer;

pub(super) use self::peer::ParityPeer;
