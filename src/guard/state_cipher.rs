//! Authenticated encryption of what a client carries for the process that issued it: tokens and
//! nonces. [`super::state_keys`] is for what other processes read, too.
//!
//! [`StateCipher`] is ChaCha20-Poly1305. The context that a text belongs to is its associated data,
//! so that a text decrypts only under the same key and for the same context.
//!
//! Invariants: a text decrypts to exactly what was encrypted, or not at all; the reason for a
//! failure is not revealed, because it would help a forger. No two texts of one key share a nonce,
//! provided that the caller never repeats one.
//!
//! Expiry and replay are the caller's business: a text decrypts any number of times.
//!
//! Source: RFC 8439, section 2.8; RFC 4648, section 5 (base64url).

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce};

/// The length of a key in bytes.
pub const KEY_BYTES: usize = 32;

/// Encrypts and decrypts texts under one key.
#[derive(Clone)]
pub struct StateCipher {
    cipher: ChaCha20Poly1305,
}

/// A decrypted text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decrypted {
    /// The nonce that it was encrypted with.
    pub nonce: u64,
    /// The plaintext.
    pub plaintext: Vec<u8>,
}

impl StateCipher {
    /// Creates a cipher. `key` must come from a cryptographically secure source.
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self { cipher: ChaCha20Poly1305::new(key.into()) }
    }

    /// Encrypts `plaintext` for `context` and returns it as base64url, or `None` if it exceeds the
    /// cipher's limit (256 GiB). `nonce` is readable by anyone who has the text and must never
    /// repeat under one key. Cost: an allocation of four thirds of `plaintext` and 32 bytes.
    pub fn encrypt(&self, nonce: u64, context: &[u8], plaintext: &[u8]) -> Option<String> {
        let payload = Payload { msg: plaintext, aad: context };
        let ciphertext = self.cipher.encrypt(&expand_nonce(nonce), payload).ok()?;
        let mut bytes = nonce.to_le_bytes().to_vec();
        bytes.extend_from_slice(&ciphertext);
        Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Decrypts a text that [`StateCipher::encrypt`] made for the same `context`. Returns `None`
    /// for everything else: modified or truncated text, another context or key, or foreign text.
    pub fn decrypt(&self, context: &[u8], text: &str) -> Option<Decrypted> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, ciphertext) = bytes.split_first_chunk()?;
        let nonce = u64::from_le_bytes(*nonce);
        let payload = Payload { msg: ciphertext, aad: context };
        let plaintext = self.cipher.decrypt(&expand_nonce(nonce), payload).ok()?;
        Some(Decrypted { nonce, plaintext })
    }
}

impl std::fmt::Debug for StateCipher {
    /// Does not print the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("StateCipher(..)")
    }
}

fn expand_nonce(value: u64) -> Nonce {
    let mut nonce = Nonce::default();
    nonce[..size_of::<u64>()].copy_from_slice(&value.to_le_bytes());
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cipher() -> StateCipher {
        StateCipher::new(&[7; KEY_BYTES])
    }

    #[test]
    fn text_decrypts_to_its_plaintext() {
        for plaintext in [&b""[..], b"x", &[0; 1000]] {
            let text = cipher().encrypt(3, b"context", plaintext).unwrap();
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
            let decrypted = cipher().decrypt(b"context", &text).unwrap();
            assert_eq!(decrypted, Decrypted { nonce: 3, plaintext: plaintext.to_vec() });
        }
    }

    #[test]
    fn modified_or_truncated_text_is_rejected() {
        let text = cipher().encrypt(3, b"context", b"the answers so far").unwrap();
        for position in 0..text.len() {
            for other in ["A", "B", "é", " ", "=", "%"] {
                let changed = format!("{}{other}{}", &text[..position], &text[position + 1..]);
                let decrypted = cipher().decrypt(b"context", &changed);
                assert!(changed == text || decrypted.is_none(), "{position}");
            }
            assert_eq!(cipher().decrypt(b"context", &text[..position]), None);
            assert_eq!(cipher().decrypt(b"context", &text[position + 1..]), None);
        }
        assert_eq!(cipher().decrypt(b"context", &(text + "A")), None);
    }

    #[test]
    fn text_decrypts_only_for_its_context_and_key() {
        let text = cipher().encrypt(3, b"context", b"x").unwrap();
        assert_eq!(cipher().decrypt(b"another", &text), None);
        assert_eq!(cipher().decrypt(b"", &text), None);
        assert_eq!(StateCipher::new(&[8; KEY_BYTES]).decrypt(b"context", &text), None);
    }

    #[test]
    fn nonce_changes_the_ciphertext() {
        let texts = [1, 2].map(|nonce| cipher().encrypt(nonce, b"", b"secret answer").unwrap());
        assert_ne!(texts[0][11..], texts[1][11..]);
        assert!(!texts[0].contains(&BASE64_URL_SAFE_NO_PAD.encode("secret answer")[2..10]));
    }

    #[test]
    fn debug_output_hides_the_key() {
        assert_eq!(format!("{:?}", cipher()), "StateCipher(..)");
    }
}
