//! Tests of the configuration: file, environment and flags.

mod deserialize;
mod documents;
mod errors;
mod precedence;
#[cfg(feature = "declared")]
mod schema;

use std::ffi::OsString;

use crate::config::issue::ConfigErrors;
use crate::config::read::load::{ConfigInputs, EffectiveConfig, assemble};
use crate::config::table::Row;

/// Assembles options from the text of a file.
fn from_file(text: &str) -> Result<EffectiveConfig, ConfigErrors> {
    let file = Some(("corelane.toml".to_owned(), text.to_owned()));
    assemble(&ConfigInputs { file, ..ConfigInputs::default() })
}

/// Assembles options from one environment variable.
fn from_variable(name: &str, value: &str) -> Result<EffectiveConfig, ConfigErrors> {
    let variables = vec![(name.to_owned(), OsString::from(value))];
    assemble(&ConfigInputs { variables, ..ConfigInputs::default() })
}

/// Assembles options from one flag.
fn from_flag(key: &'static str, text: &str) -> Result<EffectiveConfig, ConfigErrors> {
    assemble(&ConfigInputs { flags: vec![(key, text.to_owned())], ..ConfigInputs::default() })
}

/// Formats the value of `row`.
fn format_value(row: &Row, effective: &EffectiveConfig) -> String {
    row.format_value(&effective.options)
}
