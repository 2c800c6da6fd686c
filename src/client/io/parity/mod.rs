//! Servers of the parity dialect on an I/O thread.

mod receiver;

mod peer;

pub(super) use self::peer::ParityPeer;
