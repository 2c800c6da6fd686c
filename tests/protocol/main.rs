//! The protocol room through its public face: one file per behaviour.

#[path = "../alloc/counting.rs"]
mod counting;
#[path = "../support/judge.rs"]
mod judge;

mod deep_and_large;
mod dialects;
mod envelopes;
mod eras;
mod grammar;
mod ids;
mod memory;
mod messages;
mod mutations;
mod numbers;
mod stage;
mod strings;
