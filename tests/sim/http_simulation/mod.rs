//! Simulation of the server over HTTP: sessions, streams and connections that break at any time.
//!
//! `catalog` is what the server offers, `plan` what happens, `client` are the clients and `checks`
//! the checkers; `simulation` is a run, `seeds` are run. `hostile` tests faulty servers and hostile
//! clients, `scenario_tests` are written by hand.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "drawn and counted numbers are small"
)]
#![expect(clippy::struct_excessive_bools, reason = "independent facts")]
#![expect(clippy::match_same_arms, reason = "each row of a table has a reason of its own")]

mod catalog;

mod hostile;

mod checks;

pub(crate) mod client;

mod plan;

mod simulation;

mod scenario_tests;

pub(crate) mod seeds;

pub(crate) use self::plan::HttpPlan;
pub(crate) use self::simulation::run;
