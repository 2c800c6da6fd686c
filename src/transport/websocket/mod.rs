//! WebSocket (RFC 6455) and its compressed messages (RFC 7692), sans-IO: bytes to messages and
//! control frames, texts to frames.
//!
//! [`handshake`] answers the request that [`http`](super::http) has read; from then on
//! [`reader::FrameReader`] turns what arrives into messages, and [`writer`] puts texts into frames.
//! A message holds one JSON text, or several in lines, which [`delimiter`] tells apart.
//!
//! What it keeps true: a message inside one arrival is unmasked where it lies, neither copied nor
//! kept; whatever the peer breaks is told at the first byte that shows it, with the code that the
//! connection is closed with. Nothing here reads a clock, knows a socket or what a text means: who
//! pings, waits and closes is the link.

pub mod code;

pub mod limits;

mod mask;

mod frame;

pub mod utf8;

pub mod reader;

pub mod deflate;

pub mod writer;

pub mod delimiter;

pub mod handshake;

pub mod fuzz;
