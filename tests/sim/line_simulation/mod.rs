//! Simulation of clients that send newline-delimited JSON-RPC: calm, drained, piped, tight, and
//! with clock jumps.
//!
//! `message_generator` draws what a client sends, `response_checker` compares what it receives,
//! message by message (`message`, `expected_response`, `input_end`); `action` is what a client does
//! and `client` does it; `scenario` draws a run and `simulation` runs it. `checker_tests` test the
//! checkers, `scenario_tests` are written by hand.

pub(crate) mod expected_response;

pub(crate) mod message;

pub(crate) mod expectation;
pub(crate) mod input_end;

pub(crate) mod call_in_flight;

pub(crate) mod response_checker;

pub(crate) mod message_generator;

pub(crate) mod action;

pub(crate) mod scenario;

pub(crate) mod client;

pub(crate) mod simulation;

mod checker_tests;

mod scenario_tests;
