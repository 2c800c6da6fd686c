//! What a shard tells about itself: plain counters, and events with bounded labels.
//!
//! What it keeps true: payloads, arguments and secrets never reach this room. Counters belong to
//! one shard and are plain integers; whoever wants the whole adds copies that came by letter. The
//! pure rooms do not speak; the drivers above them do.

#![forbid(unsafe_code)]

pub mod error_table;
pub mod label;
pub mod throttle;

pub mod counters;

pub mod event;

pub use counters::Counters;
pub use event::Event;
pub use label::{CloseReason, RefusalReason, Transport};
pub use throttle::Throttle;
