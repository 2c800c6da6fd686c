//! Simulation of clients that use elicitation, sampling, roots, tasks and subscriptions.
//!
//! `messages` are what they send, `action` what they do, `client` does it, and `requests` sends
//! them. Three checkers take part: `connection_checker` for one connection, `shared_model` for what
//! all connections share, `catalog_versions` for the catalog; `request_expectation` checks a
//! response. `simulation` is a run, `checker_tests` test the checkers, `scenario_tests` are written
//! by hand.

pub(crate) mod messages;

pub(crate) mod catalog_versions;

pub(crate) mod shared_model;

pub(crate) mod request_expectation;

pub(crate) mod connection_checker;

pub(crate) mod action;

pub(crate) mod client;

mod requests;

pub(crate) mod simulation;

mod checker_tests;

mod scenario_tests;
