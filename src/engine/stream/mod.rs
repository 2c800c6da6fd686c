//! Streams: sockets of a ring, as their owner sends and receives on them.
//!
//! A [`Sending`] is the send in flight of one socket. [`Streams`] are the sockets whose bytes pass
//! a [`ByteFilter`], such as one of TLS, which this crate does not know.

mod decoded;
mod filter;
mod sending;

mod filtered;

mod streams;

mod ring;

pub use self::filter::ByteFilter;
pub use self::ring::StreamRing;
pub use self::sending::{Sending, Sent};
pub use self::streams::Streams;
