//! File, environment and flags become options.
//!
//! [`table`] is the one list of options; everything that sets or shows one goes through it:
//!
//! ```text
//! file ────────┐
//! environment ─┼─▶ assignments ─▶ table (texts to values) ─▶ rules ─▶ Options
//! flags ───────┘                                               └────▶ machine (warnings)
//! ```
//!
//! What it keeps true: a flag beats the environment, which beats the file, which beats the
//! default; every problem is reported at once, with its place and its remedy. It does not start
//! anything and writes nothing.

#![forbid(unsafe_code)]

pub mod problem;
pub mod suggest;

pub mod unit;

pub mod value;

pub mod table;

pub mod file;
pub mod rules;

pub mod doubts;

pub mod directories;
pub mod environment;
pub mod machine;

pub mod load;

pub use crate::server::options::{self, Options};
pub use load::{CommandLine, Effective, Inputs, assemble, load};
pub use machine::Machine;
pub use problem::{Problem, Problems, Source};
