//! The command line of a bench.

use std::io;

/// Returns the number after `flag`, or `default` if the flag is missing.
///
/// # Errors
///
/// Returns an error if no number follows the flag.
pub fn number(arguments: &[String], flag: &str, default: usize) -> io::Result<usize> {
    let position = arguments.iter().position(|argument| argument == flag);
    let value = position.and_then(|position| arguments.get(position + 1));
    value.map_or(Ok(default), |value| value.parse().map_err(io::Error::other))
}

/// Checks that `arguments` are flags that a bench knows: `values` are followed by a value.
///
/// # Errors
///
/// Returns which argument is unknown or has no value, with all flags; for `--help`, too.
pub fn check(arguments: &[String], values: &[&str], switches: &[&str]) -> io::Result<()> {
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        let is_value = values.contains(&argument.as_str());
        // Cargo adds `--bench`.
        let is_switch = argument == "--bench" || switches.contains(&argument.as_str());
        let has_value = is_value && left.next().is_some();
        if !has_value && !is_switch {
            let values = values.iter().map(|flag| format!("{flag} VALUE"));
            let flags = values.chain(switches.iter().map(|flag| (*flag).to_owned()));
            let flags = flags.collect::<Vec<_>>().join(", ");
            let what = if is_value { "no value for" } else { "not a flag:" };
            return Err(io::Error::other(format!("{what} {argument}; flags: {flags}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_arguments_and_missing_values_are_errors() {
        let check = |text: &str| {
            let arguments: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            check(&arguments, &["--scene", "--seconds"], &["--quick"])
        };
        assert!(check("--scene a --quick --seconds 2 --bench").is_ok() && check("").is_ok());
        for text in ["--help", "--scene", "--scene a b", "--seconds 2 --slow"] {
            let error = check(text).unwrap_err().to_string();
            assert!(error.ends_with("flags: --scene VALUE, --seconds VALUE, --quick"), "{error}");
        }
    }
}
