//! What a client of the parity dialect asks of its I/O thread.

mod slot;

mod command;

pub use self::command::ParityEvent;
pub(in crate::client) use self::command::{NewParityPeer, ParityEventCallback};
pub(super) use self::command::{ParityCall, ParityCommand};
pub(super) use self::slot::ParityToken;
pub(in crate::client) use self::slot::{ChunkCallback, ParitySlot};
