//! The one place that asks the system for chance.
//!
//! Asked once when a server starts. Whatever must not be guessed is derived from that, so that a
//! run in the simulator is the same every time.

use std::io;

/// Bytes that nobody can guess.
///
/// # Errors
///
/// Where the system has no random source.
pub fn secret<const BYTES: usize>() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::from)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_secrets_differ() {
        assert_ne!(secret::<32>().unwrap(), secret::<32>().unwrap());
    }
}
