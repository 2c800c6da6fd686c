//! Start-up entropy: a secret and the date, read from the system once.
//!
//! Everything else is a function of these, of elapsed time and of input, so that a simulation with
//! the same [`Entropy`] repeats its run.

use std::io;

use super::clock;

/// The secret and the date of a process.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Entropy {
    /// The key of all state that clients carry for the server. Must be unique to the process,
    /// because nonces under it are counted from zero.
    pub secret: [u8; 32],
    /// The start time in milliseconds since 1970-01-01 UTC.
    pub unix_ms: u64,
}

impl Entropy {
    /// Reads random bytes and the wall clock from the system.
    ///
    /// # Errors
    ///
    /// If the system has no random source.
    pub fn from_system() -> io::Result<Self> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(io::Error::from)?;
        Ok(Self { secret, unix_ms: clock::unix_ms() })
    }
}

impl std::fmt::Debug for Entropy {
    /// Does not print the secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Entropy").field("unix_ms", &self.unix_ms).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_unique_and_hides_its_secret() {
        let [one, two] = [(); 2].map(|()| Entropy::from_system().unwrap());
        assert_ne!(one.secret, two.secret);
        assert!(one.unix_ms > 1_700_000_000_000);
        assert!(!format!("{one:?}").contains("secret"));
    }
}
