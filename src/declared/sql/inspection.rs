//! What is found when a database is asked about a declaration at the start.

use crate::declared::problem::Problem;

/// Why a statement or a database could not be inspected.
pub(crate) enum InspectError {
    /// The database is not reachable now: the statement is tried at the call.
    Unreachable(String),
    /// The declaration is wrong.
    Problem(Problem),
}
