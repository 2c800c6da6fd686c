//! A result as a page for a team: one file, without a script, that loads nothing.
//!
//! What it keeps true: it needs no more than the kept result has; every plot has a title, a
//! description and its figures as a table; it follows the reader's choice of light and dark, a
//! narrow window and a printer.

mod axis;
mod history;
mod style;

mod plot;

mod further;
mod latencies;

mod charts;
mod figures;
mod outcomes;
mod rates;
mod setting;

mod frame;

mod run;
mod sweep;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use crate::result::RunResult;
use crate::sweep::SweepResult;

/// The page of a run.
pub fn run_page(result: &RunResult) -> String {
    run::page(result).into_string()
}

/// The page of a sweep.
pub fn sweep_page(result: &SweepResult) -> String {
    sweep::page(result).into_string()
}
