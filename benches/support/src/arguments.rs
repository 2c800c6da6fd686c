//! Numbers on the command line of a bench.

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
