//! Configuration as an operator meets it: three ways to set an option, one table behind them.

mod precedence;
mod problems;
mod process;

use std::ffi::OsString;

use corelane::config::table::Row;
use corelane::config::{Effective, Inputs, Problems, assemble};

/// Options from a file's text.
fn from_file(text: &str) -> Result<Effective, Problems> {
    let file = Some(("corelane.toml".to_owned(), text.to_owned()));
    assemble(&Inputs { file, ..Inputs::default() })
}

/// Options from one environment variable.
fn from_variable(name: &str, value: &str) -> Result<Effective, Problems> {
    let variables = vec![(name.to_owned(), OsString::from(value))];
    assemble(&Inputs { variables, ..Inputs::default() })
}

/// Options from one flag.
fn from_flag(key: &'static str, text: &str) -> Result<Effective, Problems> {
    assemble(&Inputs { flags: vec![(key, text.to_owned())], ..Inputs::default() })
}

/// The value of a row, as text.
fn shown(row: &Row, effective: &Effective) -> String {
    row.show(&effective.options)
}
