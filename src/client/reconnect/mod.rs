//! How a client connects again after the loss of its connection: options, delays, events.
//!
//! Pure: the time and the seed of the delays are arguments.

mod options;

mod state;

pub(super) use self::options::Backoff;
pub use self::options::{ReconnectMode, ReconnectOptions};
pub use self::state::ConnectionEvent;
pub(super) use self::state::{NextAttempt, Reconnection};
