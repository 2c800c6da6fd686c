//! Connections: acceptance, input to the dispatcher, output to peers, memory limit, closing.

mod half_closed;
mod large_work;

mod transports;

mod broadcaster;
mod held_memory;
mod peers;

mod request_path;

mod memory_relief;

mod connection_path;

mod effects;

pub(super) use self::broadcaster::{Broadcaster, Recipients};
pub(super) use self::connection_path::{ConnectionPath, fail_waiting};
pub(super) use self::half_closed::HalfClosed;
#[cfg(feature = "internals")]
pub(super) use self::held_memory::freeable_bytes;
pub(super) use self::held_memory::held_memory;
pub(super) use self::large_work::{LargeWork, NextWork};
pub(super) use self::transports::Transports;
