//! Counters of the server match its traffic, handlers and connections.

#[cfg(test)]
mod close_reasons;
#[cfg(test)]
mod handlers;
#[cfg(test)]
mod shard_state;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod tool_calls;
#[cfg(test)]
mod traffic;
