//! The status of a run in one word.

/// Whether a run is valid and kept its thresholds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RunStatus {
    Passed,
    Missed,
    Invalid,
}

impl RunStatus {
    pub(super) const fn new(is_valid: bool, has_passed: bool) -> Self {
        match (is_valid, has_passed) {
            (false, _) => Self::Invalid,
            (true, false) => Self::Missed,
            (true, true) => Self::Passed,
        }
    }

    /// Returns the word for tables, and the CSS class of the HTML report.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Missed => "missed",
            Self::Invalid => "invalid",
        }
    }
}
