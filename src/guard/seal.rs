//! What a client carries for us, closed so that it can neither be read nor changed.
//!
//! A [`Sealer`] turns bytes into a text that only the same key opens, and only for the purpose that
//! it was sealed for (the binding): ChaCha20-Poly1305 with the binding as associated data.
//!
//! What it keeps true: a text opens to exactly what was sealed, under the same binding, or not at
//! all; why it does not open is never told, because a forger would learn from it. Two texts of one
//! key never share a nonce, as long as the caller never repeats a number.
//!
//! What it does not do: expire, or count how often a text is opened. A text that was copied opens
//! as often as it is brought; whoever wants it once keeps the numbers of those that were used.
//!
//! Source: RFC 8439, section 2.8; RFC 4648, section 5 (the text); 2026-07-28 `basic/patterns/mrtr`,
//! which asks for it wherever a client carries state.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce};

/// The bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Closes and opens texts under one key.
#[derive(Clone)]
pub struct Sealer {
    cipher: ChaCha20Poly1305,
}

/// What a text held.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Opened {
    /// The number that it was sealed with.
    pub number: u64,
    /// What was sealed.
    pub plain: Vec<u8>,
}

impl Sealer {
    /// Closes and opens under `key`, which comes from a source that nobody can guess.
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self { cipher: ChaCha20Poly1305::new(key.into()) }
    }

    /// Closes `plain` for the purpose `binding`; none where it is longer than the cipher takes
    /// (256 GiB). `number` may be read by whoever holds the text, and must never come twice under
    /// one key: it is the nonce. Cost: four thirds of `plain` and 32 bytes.
    pub fn seal(&self, number: u64, binding: &[u8], plain: &[u8]) -> Option<String> {
        let payload = Payload { msg: plain, aad: binding };
        let closed = self.cipher.encrypt(&nonce(number), payload).ok()?;
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.extend_from_slice(&closed);
        Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Opens what [`Sealer::seal`] closed for the same `binding`; none for everything else: a text
    /// that was changed or shortened, sealed for something else or under another key, or that never
    /// was one of ours.
    pub fn open(&self, binding: &[u8], text: &str) -> Option<Opened> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let (number, closed) = bytes.split_first_chunk()?;
        let number = u64::from_le_bytes(*number);
        let payload = Payload { msg: closed, aad: binding };
        let plain = self.cipher.decrypt(&nonce(number), payload).ok()?;
        Some(Opened { number, plain })
    }
}

impl std::fmt::Debug for Sealer {
    /// Says nothing of the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Sealer(..)")
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = Nonce::default();
    nonce[..size_of::<u64>()].copy_from_slice(&number.to_le_bytes());
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer() -> Sealer {
        Sealer::new(&[7; KEY_BYTES])
    }

    #[test]
    fn a_text_opens_to_what_was_sealed() {
        for plain in [&b""[..], b"x", &[0; 1000]] {
            let text = sealer().seal(3, b"purpose", plain).unwrap();
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
            let opened = sealer().open(b"purpose", &text).unwrap();
            assert_eq!(opened, Opened { number: 3, plain: plain.to_vec() });
        }
    }

    #[test]
    fn a_text_changed_in_any_place_or_shortened_anywhere_stays_closed() {
        let text = sealer().seal(3, b"purpose", b"the answers so far").unwrap();
        for place in 0..text.len() {
            for other in ["A", "B", "é", " ", "=", "%"] {
                let changed = format!("{}{other}{}", &text[..place], &text[place + 1..]);
                let opened = sealer().open(b"purpose", &changed);
                assert!(changed == text || opened.is_none(), "{place}");
            }
            assert_eq!(sealer().open(b"purpose", &text[..place]), None);
            assert_eq!(sealer().open(b"purpose", &text[place + 1..]), None);
        }
        assert_eq!(sealer().open(b"purpose", &(text + "A")), None);
    }

    #[test]
    fn a_text_opens_for_its_purpose_and_under_its_key_only() {
        let text = sealer().seal(3, b"purpose", b"x").unwrap();
        assert_eq!(sealer().open(b"another", &text), None);
        assert_eq!(sealer().open(b"", &text), None);
        assert_eq!(Sealer::new(&[8; KEY_BYTES]).open(b"purpose", &text), None);
    }

    #[test]
    fn the_same_bytes_read_differently_under_each_number() {
        let texts = [1, 2].map(|number| sealer().seal(number, b"", b"secret answer").unwrap());
        assert_ne!(texts[0][11..], texts[1][11..]);
        assert!(!texts[0].contains(&BASE64_URL_SAFE_NO_PAD.encode("secret answer")[2..10]));
    }

    #[test]
    fn a_sealer_shows_no_key() {
        assert_eq!(format!("{:?}", sealer()), "Sealer(..)");
    }
}
