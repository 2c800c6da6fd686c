//! The servers behind this one, as operators see and change them.

use std::fmt;

/// What an operator does with a server behind this one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UpstreamChange {
    /// Starts one that is disabled.
    Enable,
    /// Ends its programs and sessions, and offers nothing of it.
    Disable,
    /// Ends its programs and sessions, and starts it.
    Restart,
    /// Accepts the tools that are left out because they have changed, as they were read.
    Approve,
}

impl UpstreamChange {
    /// Every change.
    pub const ALL: [Self; 4] = [Self::Enable, Self::Disable, Self::Restart, Self::Approve];

    /// Returns the name in paths and in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Restart => "restart",
            Self::Approve => "approve",
        }
    }
}

/// The servers behind a gateway. Shards call the functions, which must not block.
pub trait UpstreamDirectory: fmt::Debug + Send + Sync {
    /// Returns all of them as a JSON document.
    fn write_json(&self) -> String;

    /// Returns their metrics in the text format of Prometheus.
    fn write_metrics(&self) -> String;

    /// Begins a change of the one with this name. Returns whether there is one.
    fn begin_change(&self, name: &str, change: UpstreamChange) -> bool;
}
