//! File, environment and flags become options.

#![forbid(unsafe_code)]

pub mod options;

pub use options::Options;
