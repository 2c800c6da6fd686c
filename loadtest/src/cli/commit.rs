//! The commit that a result belongs to.

use std::process::{Command, Stdio};

/// Variables in which CI systems have the commit.
const VARIABLES: [&str; 8] = [
    "GITHUB_SHA",
    "CI_COMMIT_SHA",
    "BUILDKITE_COMMIT",
    "CIRCLE_SHA1",
    "BITBUCKET_COMMIT",
    "BUILD_SOURCEVERSION",
    "DRONE_COMMIT_SHA",
    "GIT_COMMIT",
];

/// Returns the commit of the flag, else that of the CI system, else that of the working directory,
/// with `-dirty` if it has changes.
pub(super) fn commit(flag: Option<&str>) -> Option<String> {
    let of_flag = flag.map(ToOwned::to_owned);
    of_flag.or_else(|| VARIABLES.into_iter().find_map(variable)).or_else(of_working_directory)
}

fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "read once, before the run")]
    let value = std::env::var(name).ok();
    value.filter(|value| !value.is_empty())
}

fn of_working_directory() -> Option<String> {
    let described = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(described.stdout).ok()?;
    let text = text.trim();
    (described.status.success() && !text.is_empty()).then(|| text.to_owned())
}
