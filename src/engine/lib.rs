//! The I/O engine of Corelane, and the only crate that makes system calls: sockets, timers,
//! messages between shards. The interface is unstable; programs use the crate `corelane`.
//!
//! Knows nothing of MCP. A [`shard_loop`] runs on one thread over one [`ring`]; its
//! [`shard_loop::Driver`] interprets the bytes.

// A module may use only those above it.

pub mod buffer;
pub mod clock;
pub mod process;

pub mod ring;

pub mod stream;

pub mod shard_loop;

pub mod driver_pair;
pub mod task_park;
pub mod timer;

pub mod mesh;

pub mod placement;

pub mod blocking;

pub mod executor;
