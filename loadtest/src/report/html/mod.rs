//! HTML reports: one self-contained file without scripts.
//!
//! Every plot has a title, a description and its values as a table. The page adapts to light and
//! dark mode, narrow windows and print.

mod axis;
mod history;
mod style;

mod plot;

mod latencies;
mod other_results;

mod charts;
mod environment;
mod figures;
mod outcomes;
mod rates;

mod frame;

mod run;
mod sweep;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use crate::result::RunResult;
use crate::sweep::SweepResult;

/// Returns the HTML page of a run.
pub fn run_page(result: &RunResult) -> String {
    run::page(result).into_string()
}

/// Returns the HTML page of a sweep.
pub fn sweep_page(result: &SweepResult) -> String {
    sweep::page(result).into_string()
}
