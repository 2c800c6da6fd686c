//! How many requests a caller may send, and how many connections an address may open.
//!
//! [`limiter`] decides by rules ([`rules`]); the state of a key is one [`bucket`] in a table of
//! fixed size, found by a hash under a secret. Times are nanoseconds of a monotonic clock.
//!
//! A rule whose burst is below four times the shards is counted in one table of all shards
//! ([`small_bursts`]), others by shares.
//!
//! Invariants: the shares of all shards add up to the limit; memory does not grow with the number
//! of callers; a flood of new keys neither removes the state of another key nor evades the limits.

pub mod bucket;

pub mod rules;

mod known_keys;

pub mod tables;

pub mod connections;
pub mod limiter;

#[cfg(test)]
mod tests;
