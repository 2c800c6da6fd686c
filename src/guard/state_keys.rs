//! Authenticated encryption of state that a client carries from one server to another one with the
//! same keys (`requestState`).
//!
//! [`StateKeys`] is XChaCha20-Poly1305. The first key encrypts, all decrypt, so that keys can be
//! replaced while states are under way. Each text has the name of its issuer and a number, which
//! are its nonce. The context that a text belongs to is its associated data.
//!
//! Invariants: a text decrypts to exactly what was encrypted, or not at all, and the reason is not
//! revealed; no two texts of one key share a nonce, provided that each issuer has a name of its own
//! and never repeats a number.
//!
//! Expiry and replay are the caller's business.
//!
//! Source: draft-irtf-cfrg-xchacha-03; RFC 4648, section 5 (base64url); MCP 2026-07-28,
//! `basic/patterns/mrtr`.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};

use super::state_cipher::KEY_BYTES;

/// Keys in use at once: the one that encrypts, and earlier ones.
const KEYS_MAX: usize = 8;

/// Encrypts texts under the first key, and decrypts those under any. A clone is the same keys.
#[derive(Clone)]
pub struct StateKeys(Arc<[XChaCha20Poly1305]>);

/// What a text was encrypted with besides its key. Readable by anyone who has the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TextNonce {
    /// Random, so that no other issuer with these keys has it.
    pub issuer: u128,
    /// Must never repeat for this issuer.
    pub number: u64,
}

/// A decrypted text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenedText {
    pub nonce: TextNonce,
    pub plaintext: Vec<u8>,
}

impl StateKeys {
    /// Returns a single key, which must come from a cryptographically secure source and encrypt
    /// nothing else.
    pub fn of_one(key: &[u8; KEY_BYTES]) -> Self {
        Self(Arc::new([XChaCha20Poly1305::new(key.into())]))
    }

    /// Reads keys: each line is one in base64, of 32 bytes. Empty lines and those that begin with
    /// `#` are ignored.
    ///
    /// # Errors
    ///
    /// Why the texts, each with the name that an error calls it, are unusable.
    pub fn from_texts<'a>(
        texts: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, String> {
        let mut keys = Vec::new();
        for (text, name) in texts {
            let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
            let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
            let before = keys.len();
            for (number, line) in lines {
                let key = BASE64_STANDARD.decode(line).ok();
                let key = key.and_then(|key| <[u8; KEY_BYTES]>::try_from(key).ok());
                let key = key.ok_or_else(|| {
                    format!(
                        "{name}:{number}: not a key: write the output of `openssl rand -base64 \
                         {KEY_BYTES}`"
                    )
                })?;
                keys.push(XChaCha20Poly1305::new((&key).into()));
            }
            if keys.len() == before {
                return Err(format!("{name} contains no key"));
            }
            if keys.len() > KEYS_MAX {
                return Err(format!("{name}: more than {KEYS_MAX} keys"));
            }
        }
        Ok(Self(keys.into()))
    }

    /// Encrypts `plaintext` for `context` and returns it as base64url, or `None` if it exceeds the
    /// cipher's limit (256 GiB). Cost: an allocation of four thirds of `plaintext` and 54 bytes.
    pub fn encrypt(&self, nonce: TextNonce, context: &[u8], plaintext: &[u8]) -> Option<String> {
        let payload = Payload { msg: plaintext, aad: context };
        let ciphertext = self.0.first()?.encrypt(&nonce.into(), payload).ok()?;
        let mut bytes = XNonce::from(nonce).to_vec();
        bytes.extend_from_slice(&ciphertext);
        Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Decrypts a text that [`StateKeys::encrypt`] made for the same `context` under one of these
    /// keys. Returns `None` for everything else.
    pub fn decrypt(&self, context: &[u8], text: &str) -> Option<OpenedText> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let (issuer, rest) = bytes.split_first_chunk()?;
        let (number, ciphertext) = rest.split_first_chunk()?;
        let nonce =
            TextNonce { issuer: u128::from_le_bytes(*issuer), number: u64::from_le_bytes(*number) };
        let decrypt = |key: &XChaCha20Poly1305| {
            key.decrypt(&nonce.into(), Payload { msg: ciphertext, aad: context }).ok()
        };
        let plaintext = self.0.iter().find_map(decrypt)?;
        Some(OpenedText { nonce, plaintext })
    }
}

impl std::fmt::Debug for StateKeys {
    /// Does not print the keys.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("StateKeys(..)")
    }
}

impl From<TextNonce> for XNonce {
    fn from(TextNonce { issuer, number }: TextNonce) -> Self {
        let mut nonce = Self::default();
        let (first, second) = nonce.split_at_mut(size_of::<u128>());
        first.copy_from_slice(&issuer.to_le_bytes());
        second.copy_from_slice(&number.to_le_bytes());
        nonce
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: TextNonce = TextNonce { issuer: 1 << 100, number: 3 };

    /// Returns a line with a key of these bytes.
    fn line(byte: u8) -> String {
        BASE64_STANDARD.encode([byte; KEY_BYTES]) + "\n"
    }

    fn keys(bytes: &[u8]) -> StateKeys {
        let text: String = bytes.iter().map(|byte| line(*byte)).collect();
        StateKeys::from_texts([(&*text, "keys")]).unwrap()
    }

    #[test]
    fn first_key_encrypts_and_all_decrypt() {
        let text = keys(&[7]).encrypt(NONCE, b"context", b"state").unwrap();
        let opened = OpenedText { nonce: NONCE, plaintext: b"state".to_vec() };
        for reader in [keys(&[7]), keys(&[8, 7]), keys(&[7, 8]), StateKeys::of_one(&[7; 32])] {
            assert_eq!(reader.decrypt(b"context", &text), Some(opened.clone()));
            assert_eq!(reader.decrypt(b"other", &text), None);
        }
        assert_eq!(keys(&[8]).decrypt(b"context", &text), None);
        let of_new = keys(&[8, 7]).encrypt(NONCE, b"context", b"state").unwrap();
        assert!(keys(&[7]).decrypt(b"context", &of_new).is_none());
    }

    #[test]
    fn modified_or_truncated_text_is_rejected() {
        let (keys, context) = (keys(&[7, 8]), b"context");
        let text = keys.encrypt(NONCE, context, b"the answers so far").unwrap();
        for position in 0..text.len() {
            for other in ["A", "B", "é", " ", "=", "%"] {
                let changed = format!("{}{other}{}", &text[..position], &text[position + 1..]);
                assert!(changed == text || keys.decrypt(context, &changed).is_none(), "{position}");
            }
            assert_eq!(keys.decrypt(context, &text[..position]), None);
        }
        assert_eq!(keys.decrypt(context, &(text + "A")), None);
    }

    #[test]
    fn nonce_changes_the_ciphertext() {
        let other_issuer = TextNonce { issuer: 0, ..NONCE };
        let nonces = [NONCE, other_issuer, TextNonce { number: 4, ..NONCE }];
        let texts = nonces.map(|nonce| keys(&[7]).encrypt(nonce, b"", b"secret answer").unwrap());
        assert!(texts[0][32..] != texts[1][32..] && texts[0][32..] != texts[2][32..]);
    }

    #[test]
    fn unusable_file_of_keys_is_named() {
        let error = |text: &str| StateKeys::from_texts([(text, "keys.txt")]).unwrap_err();
        assert_eq!(error("# none\n\n"), "keys.txt contains no key");
        let short = format!("{}c2hvcnQ=\n", line(1));
        assert!(error(&short).starts_with("keys.txt:2: not a key: write the output of `openssl"));
        assert_eq!(error(&line(1).repeat(9)), "keys.txt: more than 8 keys");
        assert_eq!(format!("{:?}", keys(&[1])), "StateKeys(..)");
    }
}
