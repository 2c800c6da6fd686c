//! Simulation of the parity dialect: both roles, over every transport, through lost connections.
//!
//! The clients are [`ClientSession`]s, each with a model of its session that checks what the
//! server sends. `plan` draws a run, `peer` is a client, `link` its transport, `session_model` the
//! checker with `stream_model`, `request_model`, `keys` and `resumption`; `simulation` is a run,
//! `seeds` are run. `checker_tests` show that the checkers find the faults of `fault`,
//! `scenario_tests` are written by hand.
//!
//! [`ClientSession`]: corelane_parity::client_session::ClientSession

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "drawn and counted numbers are small"
)]
#![expect(clippy::struct_excessive_bools, reason = "independent facts")]

mod fault;
mod keys;
mod link;
mod messages;
mod peer;
mod peer_actions;
mod plan;
mod request_model;
mod resumption;
mod schemas;
mod server;
mod session_model;
mod simulation;
mod stream_model;
mod totals;
mod work;

mod checker_tests;
mod scenario_tests;

pub(crate) mod seeds;

pub(crate) use self::plan::ParityPlan;
pub(crate) use self::simulation::run;
