//! Errors of the command line.

/// Returns clap's error in one line, without the usage.
pub(super) fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let message =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let message = message.collect::<Vec<_>>().join(" ");
    format!("{} (see --help)", message.trim_start_matches("error: "))
}
