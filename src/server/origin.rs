//! What a server takes from the world when it starts, and never asks for again.

use std::io;

use crate::engine::{chance, clock};

/// Chance and date at the start of a server. Everything that follows is a function of these, of
/// the passing of time and of what arrives: a server that was given the same origin says the same.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Origin {
    /// What nobody else may know: the key of all that clients carry for this server. Two processes
    /// must never have the same one, because what must not repeat under it is counted from zero in
    /// each of them; a simulation is no process that anybody talks to.
    pub secret: [u8; 32],
    /// The date, in milliseconds since the beginning of 1970 (UTC).
    pub unix_ms: u64,
}

impl Origin {
    /// Asks the machine.
    ///
    /// # Errors
    ///
    /// Where the system has no random source.
    pub fn of_this_machine() -> io::Result<Self> {
        Ok(Self { secret: chance::secret()?, unix_ms: clock::unix_ms() })
    }
}

impl std::fmt::Debug for Origin {
    /// Says nothing of the secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Origin").field("unix_ms", &self.unix_ms).finish_non_exhaustive()
    }
}
