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

pub mod issue;
pub mod suggest;

pub mod unit;

pub mod value;

pub mod table;

pub mod file;
pub mod rules;

pub mod warnings;

pub mod directories;
pub mod environment;

pub mod machine;

pub mod load;

pub use crate::server::options::{self, Options};
pub use issue::ConfigIssue;
#[cfg(feature = "internals")]
pub use issue::{ConfigErrors, Source};
pub use load::{CommandLine, EffectiveConfig, load};
#[cfg(feature = "internals")]
pub use load::{ConfigInputs, assemble};
pub use machine::MachineLimits;
