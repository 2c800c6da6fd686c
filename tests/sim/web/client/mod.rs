//! One client over HTTP with all its connections.
//!
//! `speech` is what it says, `line` one connection, `guest` what it does and when, `asking` what it
//! asks for then, `pairs` how it does that as one of 2024-11-05, `chores` what it asks for besides
//! work; `ear` is what it hears and `heads` whether that may be the answer.

pub(crate) mod speech;

pub(crate) mod line;

pub(crate) mod guest;

mod asking;

mod pairs;

mod chores;

mod heads;

mod ear;
