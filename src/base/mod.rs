//! The ground floor: bounded collections, time and chance.
//!
//! Knows nothing of MCP, of sockets or of the clock; every room may stand on it.

#![forbid(unsafe_code)]

pub mod pool;
pub mod random;
pub mod slab;
pub mod time;
