//! Results as people read them.

pub mod progress;
pub mod table;
