//! Simulation of clients that take all places of a small server, beside honest ones.
//!
//! `plan` is what a seed decides, `hostile` are the clients that take places, `honest` those that
//! do one call at a time, each with its `link`; `messages` are what they send, `server` is what
//! answers, `checker` decides what is fair, and `simulation` is a run.

#![expect(clippy::cast_possible_truncation, reason = "drawn and counted numbers are small")]

mod checker;

mod checker_tests;

mod honest;

mod hostile;

mod link;

mod messages;

pub(crate) mod plan;

mod server;

pub(crate) mod simulation;
