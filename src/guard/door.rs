//! The first door: whether a new connection is served.

/// Why a connection is turned away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// The server drains.
    Draining,
    /// As many as allowed are open.
    Full,
}

/// Decides about a new connection. `has_place` says whether one of the places that all shards
/// share was free (and has been taken).
///
/// A connection that is refused is told so with error 1001 (seed 001, section 2) and closed.
pub const fn admit(is_draining: bool, has_place: bool) -> Result<(), Refusal> {
    match (is_draining, has_place) {
        (true, _) => Err(Refusal::Draining),
        (false, false) => Err(Refusal::Full),
        (false, true) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draining_server_says_so_whether_it_is_full_or_not() {
        assert_eq!(admit(true, true), Err(Refusal::Draining));
        assert_eq!(admit(true, false), Err(Refusal::Draining));
        assert_eq!(admit(false, false), Err(Refusal::Full));
        assert_eq!(admit(false, true), Ok(()));
    }
}
