//! Combines configuration file, environment and flags into options.
//!
//! [`table`] lists all options; everything that sets or shows an option uses it:
//!
//! ```text
//! file ────────┐
//! environment ─┼─▶ assignments ─▶ table (text to value) ─▶ rules ─▶ Options
//! flags ───────┘                                               └────▶ machine (warnings)
//! ```
//!
//! Invariants: a flag takes precedence over the environment, the environment over the file, the
//! file over the default. All errors are reported at once, each with its source and a hint. This
//! module starts nothing and writes nothing.

#![forbid(unsafe_code)]
// Without the command line, only the deserialization of options reads the table.
#![cfg_attr(
    not(feature = "cli"),
    expect(dead_code, reason = "the command line reads the rest of the table")
)]

pub mod issue;

pub mod table;

pub mod rules;

#[cfg(feature = "declared")]
pub mod schema;

#[cfg(feature = "cli")]
pub mod warnings;

#[cfg(feature = "cli")]
pub mod machine;

pub mod read;

mod deserialize;

#[cfg(all(test, feature = "cli"))]
mod tests;

pub use crate::server::options;
#[cfg(feature = "cli")]
pub use crate::server::options::Options;
pub use crate::server::options::{unit, value};
#[cfg(feature = "cli")]
pub use issue::ConfigIssue;
#[cfg(feature = "cli")]
pub use machine::MachineLimits;
#[cfg(feature = "cli")]
pub use read::load::{CommandLine, EffectiveConfig, load};
