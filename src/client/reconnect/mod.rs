//! How a client connects again after the loss of its connection: options, delays, events.
//!
//! Pure: the time and the seed of the delays are arguments.

mod options;

mod backoff;

mod event;

mod state;

pub(super) use self::backoff::Backoff;
pub use self::event::ConnectionEvent;
pub use self::options::{ReconnectMode, ReconnectOptions};
pub(super) use self::state::{NextAttempt, Reconnection};
