//! How a run went, in a word.

/// Whether it counts, and whether it kept its thresholds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Word {
    Passed,
    Missed,
    Invalid,
}

impl Word {
    /// Of what counts or does not, and kept its thresholds or did not.
    pub(super) const fn of(is_valid: bool, has_passed: bool) -> Self {
        match (is_valid, has_passed) {
            (false, _) => Self::Invalid,
            (true, false) => Self::Missed,
            (true, true) => Self::Passed,
        }
    }

    /// As it stands in a line, and in the style of a page.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Missed => "missed",
            Self::Invalid => "invalid",
        }
    }
}
