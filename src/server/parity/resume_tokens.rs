//! Resume tokens: which session, which generation of it, and of whom, under authenticated
//! encryption.
//!
//! Invariants: a token opens only for the principal that it was issued to; one of another process
//! is recognized as such, because its beginning names the process.

use std::fmt;

use corelane_engine::mesh::ShardId;
use corelane_parity::idempotency::hex;

use crate::guard::secure_rng::{Purpose, SecureRng};
use crate::guard::state_cipher::StateCipher;
use crate::server::owner_id::SessionId;

/// Issues and opens the tokens of a shard.
pub struct ResumeTokens {
    cipher: StateCipher,
    /// Names the process.
    life: String,
    /// The next nonce: the shard, then a counter.
    nonce: u64,
}

/// What a token says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct TokenContents {
    pub(super) session: SessionId,
    pub(super) generation: u32,
}

/// The generations of a session: each resumption begins one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Generations {
    present: u32,
    /// Number of earlier ones whose tokens may be presented again: their clients may not know of
    /// the later ones.
    unused: u32,
    /// The one whose token began the present one.
    presented: u32,
}

impl Generations {
    /// Returns the present one.
    pub(super) const fn present(self) -> u32 {
        self.present
    }

    /// Returns whether a token of `generation` is valid. `is_lost`: the session has no connection.
    /// One that has a connection continues for a client that knows more than that connection: its
    /// handshake was read late.
    pub(super) const fn accepts(self, generation: u32, is_lost: bool) -> bool {
        let age = self.present.wrapping_sub(generation);
        let is_newer = age < self.present.wrapping_sub(self.presented);
        age == 0 || age <= self.unused && (is_lost || is_newer)
    }

    /// Begins another one, for a client that has presented a token of `presented`.
    pub(super) const fn begin(&mut self, presented: u32) {
        self.presented = presented;
        self.present = self.present.wrapping_add(1);
        self.unused = self.unused.saturating_add(1);
    }

    /// The client has used the present one.
    pub(super) const fn record_use(&mut self) {
        self.unused = 0;
    }
}

/// Why a token does not open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TokenError {
    /// Another process has issued it.
    OtherProcess,
    /// It is forged, or issued to somebody else.
    Invalid,
}

impl ResumeTokens {
    /// The tokens of `shard`. All shards of a process have the same `secret`.
    pub fn new(secret: &[u8; 32], shard: ShardId) -> Self {
        let mut rng = SecureRng::new(secret, Purpose::ResumeTokens);
        let mut draw = || rng.next_u128().unwrap_or_default().to_le_bytes();
        let (mut key, life) = ([0; 32], draw());
        key[..16].copy_from_slice(&draw());
        key[16..].copy_from_slice(&draw());
        let life = hex(&life[..8]);
        Self { cipher: StateCipher::new(&key), life, nonce: u64::from(shard.0) << 48 }
    }

    /// Issues a token for `principal`, its identity; empty without authentication.
    pub(super) fn issue(&mut self, contents: TokenContents, principal: &str) -> Option<String> {
        let mut plaintext = contents.session.to_text().to_vec();
        plaintext.extend_from_slice(&contents.generation.to_le_bytes());
        self.nonce += 1;
        let sealed = self.cipher.encrypt(self.nonce, &context(principal), &plaintext)?;
        Some(format!("{}.{sealed}", self.life))
    }

    /// Opens a token that `principal` presents.
    pub(super) fn open(&self, token: &str, principal: &str) -> Result<TokenContents, TokenError> {
        let (life, sealed) = token.split_once('.').ok_or(TokenError::Invalid)?;
        if life != self.life {
            let is_name =
                life.len() == self.life.len() && life.bytes().all(|byte| byte.is_ascii_hexdigit());
            return Err(if is_name { TokenError::OtherProcess } else { TokenError::Invalid });
        }
        let opened = self.cipher.decrypt(&context(principal), sealed);
        let plaintext = opened.ok_or(TokenError::Invalid)?.plaintext;
        let (session, generation) =
            plaintext.split_at_checked(SessionId::TEXT_BYTES).ok_or(TokenError::Invalid)?;
        let session = SessionId::parse(session).ok_or(TokenError::Invalid)?;
        let generation = generation.try_into().map_err(|_| TokenError::Invalid)?;
        Ok(TokenContents { session, generation: u32::from_le_bytes(generation) })
    }
}

fn context(principal: &str) -> Vec<u8> {
    [b"resume token\0", principal.as_bytes()].concat()
}

impl fmt::Debug for ResumeTokens {
    /// Does not print the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResumeTokens").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents() -> TokenContents {
        let session = SessionId::parse(b"01234567-89ab-4def-8123-456789abcdef").unwrap();
        TokenContents { session, generation: 7 }
    }

    #[test]
    fn token_opens_for_its_principal_only() {
        let mut tokens = ResumeTokens::new(&[1; 32], ShardId(0));
        let token = tokens.issue(contents(), "ada").unwrap();
        assert_eq!(ResumeTokens::new(&[1; 32], ShardId(3)).open(&token, "ada"), Ok(contents()));
        assert_eq!(tokens.open(&token, "bob"), Err(TokenError::Invalid));
        assert_eq!(tokens.open(&token[..token.len() - 1], "ada"), Err(TokenError::Invalid));
        assert_eq!(tokens.open("token", "ada"), Err(TokenError::Invalid));
        assert_ne!(tokens.issue(contents(), "ada").unwrap(), token);
    }

    #[test]
    fn earlier_token_is_valid_until_next_use() {
        let mut generations = Generations::default();
        generations.begin(0);
        generations.begin(1);
        assert!((0..3).all(|generation| generations.accepts(generation, true)));
        assert_eq!(
            [0, 1, 2, 3].map(|it| generations.accepts(it, false)),
            [false, false, true, false]
        );
        generations.record_use();
        assert_eq!(
            [0, 1, 2, 3].map(|it| generations.accepts(it, true)),
            [false, false, true, false]
        );
    }

    #[test]
    fn late_handshake_leaves_later_token_valid() {
        let mut generations = Generations::default();
        generations.begin(0);
        // The connection is lost, and another one presents the first token late.
        assert!(generations.accepts(0, true));
        generations.begin(0);
        assert!(generations.accepts(1, false) && generations.accepts(2, false));
        assert!(!generations.accepts(0, false));
    }

    #[test]
    fn token_of_another_process_is_recognized() {
        let token = ResumeTokens::new(&[2; 32], ShardId(0)).issue(contents(), "").unwrap();
        let tokens = ResumeTokens::new(&[1; 32], ShardId(0));
        assert_eq!(tokens.open(&token, ""), Err(TokenError::OtherProcess));
    }
}
