//! The connections of a shard and the state of the transports that they carry; notifications to
//! subscribers.

mod half_closed;
mod large_work;

mod transports;

mod broadcaster;
mod held_memory;

pub(super) use self::broadcaster::{Broadcaster, Recipients};
pub(super) use self::half_closed::{HalfClose, HalfClosed, half_close_refused, half_close_timeout};
pub(super) use self::held_memory::{freeable_bytes, held_memory};
pub(super) use self::large_work::{LargeWork, NextWork};
pub(super) use self::transports::Transports;
