//! The protocol room through its public face: one file per behaviour.

#[path = "../alloc/counting.rs"]
mod counting;
#[path = "../support/judge.rs"]
mod judge;

mod capabilities;
mod contents;
mod deep_and_large;
mod dialects;
mod envelopes;
mod eras;
mod forms;
mod grammar;
mod ids;
mod judged;
mod memory;
mod messages;
mod mutations;
mod notifications;
mod numbers;
mod params;
mod questions;
mod stage;
mod strings;
mod tasks;
