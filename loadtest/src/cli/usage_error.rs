//! Errors of the command line.

/// Commands and flags of earlier versions, as clap quotes them, with what they are called now.
const EARLIER: [(&str, &str); 3] = [
    ("'check'", "part of run and search, which warn before the load; settings: tuning/README.md"),
    ("'sweep'", "search --fractions 0.25,0.5,0.75,0.9"),
    ("'--search-duration'", "--duration, and --duration is --fraction-duration"),
];

/// Returns clap's error in one line, without the usage. What an earlier version had is named as it
/// is now.
pub(super) fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let message =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let message = message.collect::<Vec<_>>().join(" ");
    let message = message.trim_start_matches("error: ");
    match EARLIER.into_iter().find(|(name, _)| message.contains(name)) {
        Some((name, now)) => format!("{name} is now {now} (see --help)"),
        None => format!("{message} (see --help)"),
    }
}
