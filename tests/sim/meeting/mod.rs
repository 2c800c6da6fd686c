//! Clients that are asked, keep tasks and listen.
//!
//! `phrase` is what they say, `deed` what they do, `visitor` does it, and `saying` says it. Three
//! checkers look on: `ledger` at one connection, `commons` at what all know together, `editions` at
//! the catalog; `errand` says what an answer must be. `gathering` is a run, `proofs` shows that the
//! checkers look, `visits` are written by hand.

pub(crate) mod phrase;

pub(crate) mod editions;

pub(crate) mod commons;

pub(crate) mod errand;

pub(crate) mod ledger;

pub(crate) mod deed;

pub(crate) mod visitor;

mod saying;

pub(crate) mod gathering;

mod proofs;

mod visits;
