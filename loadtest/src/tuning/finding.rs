//! Findings of a review, and the load that it is made for.

use serde::{Deserialize, Serialize};

/// The load that a machine is checked for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PlannedLoad {
    /// Connections to one address of a server.
    pub connections: u64,
    /// Number of source addresses.
    pub sources: u64,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The load is impossible without it.
    Needed,
    /// Has a cost that a plan or a network can show.
    Advised,
    /// Affects measurements without being a fault; relevant when results are compared.
    Info,
}

/// A difference from the profile, or an insufficient limit.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct TuningFinding {
    /// Name of the kernel setting or limit.
    pub knob: String,
    /// Severity.
    pub severity: Severity,
    /// Actual value.
    pub actual: String,
    /// Expected value.
    pub expected: String,
    /// Cost of the difference.
    pub cost: String,
    /// What to do.
    pub hint: String,
    /// Plan in `loadtest/plans` that shows the effect.
    pub plan: Option<String>,
}
