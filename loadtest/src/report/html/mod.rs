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

mod page;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use crate::result::RunResult;

/// The page of a result.
pub fn page(result: &RunResult) -> String {
    page::page(result).into_string()
}
