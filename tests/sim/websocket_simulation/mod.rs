//! Simulation of the server over WebSocket.
//!
//! Clients and checkers are those of [`crate::feature_simulation`], the transport that of
//! [`crate::websocket`]. `plan` draws a run, `seeds` are run, `scenario_tests` are written by hand,
//! `checker_tests` show that the checkers detect faults.

pub(crate) mod plan;

pub(crate) mod seeds;

mod scenario_tests;

mod checker_tests;
