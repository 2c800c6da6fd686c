//! The profile: recommended kernel settings from `tuning/90-corelane.conf`.
//!
//! Format (sysctl.d(5)): a line is `name = value`, a comment (`#` or `;`) or empty; a `-` before
//! the name ignores failures to set it.

/// Contents of `tuning/90-corelane.conf`, by the link to it in this package.
pub const PROFILE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/90-corelane.conf"));

/// A kernel setting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Setting<'a> {
    /// Name, with dots.
    pub name: &'a str,
    /// Value as written.
    pub value: &'a str,
}

/// Parses the settings of a sysctl.d file in their order. Invalid lines are skipped, as by
/// systemd-sysctl.
pub fn settings(text: &str) -> impl Iterator<Item = Setting<'_>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    lines.filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        let name = name.trim().trim_start_matches('-');
        Some(Setting { name, value: value.trim() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_invalid_lines_are_skipped() {
        let text = "# a = 1\n; b = 2\n\nnet.core.somaxconn=4096\n -fs.x = 1 2 \nnonsense\n";
        let found: Vec<_> = settings(text).map(|setting| (setting.name, setting.value)).collect();
        assert_eq!(found, [("net.core.somaxconn", "4096"), ("fs.x", "1 2")]);
    }

    #[test]
    fn profile_names_each_setting_once() {
        let mut names: Vec<&str> = settings(PROFILE).map(|setting| setting.name).collect();
        let count = names.len();
        assert!(count >= 5, "{names:?}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
