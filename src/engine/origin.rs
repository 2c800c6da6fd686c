//! What a program takes from the machine when it starts, and never asks for again: chance and the
//! date.
//!
//! Everything that follows is a function of these, of the passing of time and of what arrives: a
//! server that was given the same origin says the same, which is how the simulator repeats a run.

use std::io;

use super::clock;

/// Chance and date at the start.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Origin {
    /// What nobody else may know: the key of all that clients carry for a server. Two processes
    /// must never have the same one, because what must not repeat under it is counted from zero in
    /// each of them; a simulation is no process that anybody talks to.
    pub secret: [u8; 32],
    /// The date, in milliseconds since the beginning of 1970 (UTC).
    pub unix_ms: u64,
}

impl Origin {
    /// Asks the machine: the only place that does.
    ///
    /// # Errors
    ///
    /// Where the system has no random source.
    pub fn of_this_machine() -> io::Result<Self> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(io::Error::from)?;
        Ok(Self { secret, unix_ms: clock::unix_ms() })
    }
}

impl std::fmt::Debug for Origin {
    /// Says nothing of the secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Origin").field("unix_ms", &self.unix_ms).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_origins_share_no_secret_and_show_none() {
        let [one, two] = [(); 2].map(|()| Origin::of_this_machine().unwrap());
        assert_ne!(one.secret, two.secret);
        assert!(one.unix_ms > 1_700_000_000_000);
        assert!(!format!("{one:?}").contains("secret"));
    }
}
