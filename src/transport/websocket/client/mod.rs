//! The client side of WebSocket: the upgrade request and its checks, masked frames, and the frames
//! of a server.
//!
//! [`handshake`] writes the upgrade request and checks its response; then
//! [`frames::ServerFrameReader`] parses the frames of the server, and `frames` writes messages.
//! Random bytes are arguments: the key of the handshake and a masking key for each frame.

pub mod handshake;

pub mod frames;
