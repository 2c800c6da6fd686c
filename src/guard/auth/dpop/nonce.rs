//! Nonces of proofs without a table: a time that only this server can have written.
//!
//! All clients get the same nonce during a period of [`PERIOD_SECONDS`]; it is accepted until the
//! end of the next one, so for 150 s to 300 s.
//!
//! Source: RFC 9449, sections 8 and 9.

use crate::guard::state_cipher::{KEY_BYTES, StateCipher};

/// Time in seconds for which the same nonce is issued.
pub const PERIOD_SECONDS: u64 = 150;

/// Issues nonces, and knows them again.
#[derive(Clone, Debug)]
pub struct Nonces(StateCipher);

impl Nonces {
    /// Creates nonces under a key, which must encrypt nothing else.
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self(StateCipher::new(key))
    }

    /// Returns the nonce of the time `unix_seconds`.
    pub fn current(&self, unix_seconds: u64) -> String {
        // The number of a period is the nonce of the cipher: under one there is one text only.
        self.0.encrypt(unix_seconds / PERIOD_SECONDS, CONTEXT, b"").unwrap_or_default()
    }

    /// Returns whether a nonce is accepted at the time `unix_seconds`.
    pub fn accepts(&self, nonce: &str, unix_seconds: u64) -> bool {
        let period = unix_seconds / PERIOD_SECONDS;
        let issued = self.0.decrypt(CONTEXT, nonce);
        issued.is_some_and(|it| it.nonce == period || it.nonce + 1 == period)
    }
}

const CONTEXT: &[u8] = b"dpop";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonce_is_accepted_for_two_periods() {
        let nonces = Nonces::new(&[7; KEY_BYTES]);
        let begin = 1_000 * PERIOD_SECONDS;
        let nonce = nonces.current(begin + 3);
        assert_eq!(nonce, nonces.current(begin + PERIOD_SECONDS - 1));
        assert_ne!(nonce, nonces.current(begin + PERIOD_SECONDS));
        assert!(nonce.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        let accepts = |at: u64| nonces.accepts(&nonce, at);
        assert!(accepts(begin) && accepts(begin + 2 * PERIOD_SECONDS - 1));
        assert!(!accepts(begin + 2 * PERIOD_SECONDS) && !accepts(begin - 1));
    }

    #[test]
    fn nonce_of_another_key_is_refused() {
        let nonce = Nonces::new(&[8; KEY_BYTES]).current(1_000);
        let nonces = Nonces::new(&[7; KEY_BYTES]);
        let own = nonces.current(1_000);
        for nonce in [&nonce, "", "x", &own[1..], &format!("{own}A")] {
            assert!(!nonces.accepts(nonce, 1_000), "{nonce}");
        }
        assert!(nonces.accepts(&own, 1_000));
    }
}
