//! Clients that speak lines: calm, drained, piped, tight, and while time jumps.
//!
//! `speaker` draws what a client says and `conversation` holds what it hears against it, message by
//! message (`message`, `answer`); `dialogue` is what it does and `client` does it; `scenario` draws
//! a run and `stage` plays it. `canaries` proves that the checkers look, `scenes` are written by
//! hand.

pub(crate) mod answer;

pub(crate) mod message;

pub(crate) mod conversation;

pub(crate) mod speaker;

pub(crate) mod dialogue;

pub(crate) mod scenario;

pub(crate) mod client;

pub(crate) mod stage;

mod canaries;

mod scenes;
