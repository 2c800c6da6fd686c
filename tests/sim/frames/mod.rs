//! Clients of WebSocket: what speaks lines can speak through them.
//!
//! `bytes` is the form of frames, `opening` the handshake before them, `faults` what breaks their
//! protocol. `hearing` checks what the server says, `relay` breaks it on purpose, `framed` is a
//! client's connection, `voice` what is said on it, and `carrier` is that or plain lines.

pub(crate) mod bytes;

mod opening;

pub(crate) mod faults;

pub(crate) mod hearing;

pub(crate) mod relay;

pub(crate) mod framed;

mod voice;

pub(crate) mod carrier;
