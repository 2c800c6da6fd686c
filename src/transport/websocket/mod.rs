//! WebSocket (RFC 6455) with message compression (RFC 7692), sans-IO.
//!
//! [`handshake`] validates the upgrade request parsed by [`http`](super::http) and writes its
//! response; then [`reader::FrameReader`] parses messages and control frames, and [`writer`] frames
//! texts. A message holds one JSON text, or several that
//! [`reader::DelimitedMessages`] splits.
//!
//! [`client`] is the other side: it writes the upgrade request and masked frames, and parses what a
//! server sends.
//!
//! A message within one read is unmasked in place and not copied. A protocol error is reported at
//! the first byte that shows it, with its close code. Pings, timeouts and closing belong to
//! the caller.

pub mod limits;

mod frame;

pub mod utf8;

pub mod reader;

pub mod deflate;

pub mod writer;

pub mod handshake;

pub mod client;
