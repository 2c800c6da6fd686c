//! Streams: sockets of a ring, as their owner sends on them.

mod sending;

pub use self::sending::{Sending, Sent};
