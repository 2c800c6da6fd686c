//! The server over WebSocket: the clients that are asked, keep tasks and listen, in frames.
//!
//! What they do and what is checked is that of [`crate::meeting`]; how they speak that of
//! [`crate::frames`]. `plan` is what is to happen, `seeds` which are run, `scenes` are written by
//! hand, `canaries` show that the checkers look.

pub(crate) mod plan;

pub(crate) mod seeds;

mod scenes;

mod canaries;
