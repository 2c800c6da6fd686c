//! The status of a run in one word.

/// Outcome of a run as a whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RunStatus {
    /// Every threshold was checked and held.
    Passed,
    /// No threshold was set, and at most the accepted share of the requests failed.
    Completed,
    /// A threshold was missed.
    Missed,
    /// Too many requests failed, connections did not open, or the server is saturated.
    Failed,
    /// The run cannot be judged, because of the load generator or of the plan.
    Invalid,
}

impl RunStatus {
    /// Returns the status of a run with thresholds.
    pub const fn new(is_valid: bool, has_passed: bool) -> Self {
        match (is_valid, has_passed) {
            (false, _) => Self::Invalid,
            (true, false) => Self::Missed,
            (true, true) => Self::Passed,
        }
    }

    /// Returns the word for tables, and the CSS class of the HTML report.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Completed => "completed",
            Self::Missed => "missed",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
        }
    }
}
