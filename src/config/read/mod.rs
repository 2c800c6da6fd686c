//! From the file, the environment and flags to valid options.

pub mod raw_value;

pub(super) mod apply;

#[cfg(feature = "cli")]
pub mod environment;
#[cfg(feature = "cli")]
pub mod file;

#[cfg(feature = "cli")]
pub mod load;
