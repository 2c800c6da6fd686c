//! What a process has once: its start-up entropy, a secret and the date, and its limit of open
//! files, which bounds the number of connections.
//!
//! All else is a function of the entropy, of elapsed time and of input, so that a simulation with
//! the same [`Entropy`] repeats its run.

use std::io;

use rustix::process::{Resource, getrlimit, setrlimit};

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

/// Raises the soft limit of open files (`RLIMIT_NOFILE`) to the hard limit and returns it.
/// `io_uring` applies it to the table of direct descriptors of each ring; the poll backend shares
/// it among all shards.
pub fn raise_open_files_limit() -> u32 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // On failure the soft limit stays, and is read back below.
        setrlimit(Resource::Nofile, limit).unwrap_or(());
    }
    let bound = getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED);
    u32::try_from(bound).unwrap_or(u32::MAX)
}

/// Returned for an unlimited `RLIMIT_NOFILE`.
const UNLIMITED: u64 = u32::MAX as u64;

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

    #[test]
    fn raised_file_limit_is_stable() {
        assert!(raise_open_files_limit() > 2);
        assert_eq!(raise_open_files_limit(), raise_open_files_limit());
    }
}
