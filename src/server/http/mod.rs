//! Legacy sessions over HTTP: what outlives the connections that their requests come through.
//!
//! A session (2025-03-26 to 2025-11-25) is begun by `initialize` and belongs to the shard that
//! answered it. Its name tells which shard that is (`identity`), so a request that arrives
//! elsewhere becomes a letter to the owner and back, and no shard knows the sessions of another.
//! `log` keeps what was sent on one stream, `stream` the streams of one session, `sessions` all
//! sessions of a shard. This room is a state machine: it runs no handler, writes to no connection
//! and reads no clock.
//!
//! Modern requests have no session and never come here.
//!
//! Source: 2025-03-26 to 2025-11-25, basic/transports, "Streamable HTTP".

mod identity;

mod log;

mod stream;

mod sessions;

pub(super) use self::identity::{SessionId, SessionIds};
pub(super) use self::log::LogBounds;
pub(super) use self::sessions::{Begun, Bounds, Gone, Sessions};
pub(super) use self::stream::{ExchangeAddress, LISTENING, Pushed, Refusal, Resumed, StreamBounds};

#[cfg(test)]
mod tests;
