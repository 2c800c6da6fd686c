//! WebSocket clients: a transport for any simulated client that sends lines.
//!
//! `bytes` encodes frames, `handshake` opens the connection, `faults` are protocol violations of
//! clients. `frame_checker` checks what the server sends, `fault_proxy` damages it on purpose,
//! `connection` is a client's connection, `frame_writer` its sending half, and `transport` is that
//! or plain lines.

pub(crate) mod bytes;

mod handshake;

pub(crate) mod faults;

pub(crate) mod frame_checker;

pub(crate) mod fault_proxy;

pub(crate) mod connection;

mod frame_writer;

pub(crate) mod transport;
