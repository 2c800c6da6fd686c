//! Counters and events of a shard, with bounded labels.
//!
//! Invariants: payloads, arguments and secrets are never recorded. Counters are plain integers
//! owned by one shard; totals are sums of copies sent as messages. base, protocol, transport,
//! guard and service emit no events; the modules above them do.

#![forbid(unsafe_code)]

pub mod label;
pub mod lines;
pub mod open_work;
pub mod throttle;

pub mod auth_event;
pub mod certificate;

pub mod trace;

pub mod counters;
pub mod metrics;

pub mod event;

pub use counters::Counters;
#[cfg(feature = "cli")]
pub use event::Event;
pub use label::Transport;
pub use open_work::ConnectionInfo;
