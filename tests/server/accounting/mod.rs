//! Counters of the server match its traffic, handlers and connections.

mod close_reasons;
mod handlers;
mod shard_state;
mod snapshots;
mod tool_calls;
mod traffic;
