//! Harness: the shards of one server in a simulated world, independent of what clients send.
//!
//! `recording_ring` is a ring that records accepted connections, `socket` a client's end of a
//! connection, `shard` one shard, `server` all of them and the clock, `commands` the calls of the
//! server's handle.

pub(crate) mod mesh;
pub(crate) mod recording_ring;

pub(crate) mod socket;

pub(crate) mod shard;

pub(crate) mod server;

pub(crate) mod commands;
