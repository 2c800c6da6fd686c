//! Keys of session tickets: random ones, or those of files that several processes share.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use rustls::crypto::SecureRandom;
use rustls::server::ProducesTickets;

use super::provider;

/// Keys that can be in effect: the current one and two previous ones.
const KEYS_MAX: usize = 3;
const NAME_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// Lifetime of a ticket that clients are given.
const LIFETIME_SECONDS: u32 = 12 * 60 * 60;
/// Length of the digest of what a ticket depends on.
const CONTEXT_BYTES: usize = 16;

/// The keys of session tickets (RFC 8446 section 4.6.1), shared by all shards, so that a client
/// resumes on any of them. Cloning is cheap.
#[derive(Clone)]
pub struct TicketKeys(Arc<dyn ProducesTickets>);

impl TicketKeys {
    /// Creates random keys, which are renewed every 6 h and accepted for 12 h.
    ///
    /// # Errors
    ///
    /// If the system has no random bytes, or the program was built without cryptography.
    pub fn random() -> Result<Self, String> {
        provider::random_ticketer().map(Self)
    }

    /// Reads keys: each line is one in base64, of 16 bytes that name it and 32 secret bytes. The
    /// first one encrypts tickets, and up to two others decrypt them, too. Empty lines and those
    /// that begin with `#` are ignored.
    ///
    /// # Errors
    ///
    /// Why the texts, each with the name that an error calls it, are unusable.
    pub fn from_texts<'a>(
        texts: impl IntoIterator<Item = (&'a [u8], &'a str)>,
    ) -> Result<Self, String> {
        let provider = provider::default()?;
        let mut keys = Vec::new();
        for (text, name) in texts {
            let before = keys.len();
            for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
                let line = line.trim_ascii();
                if !line.is_empty() && !line.starts_with(b"#") {
                    let key = StaticKey::parse(line).ok_or_else(|| {
                        format!(
                            "{name}:{}: not a ticket key: write the output of `openssl rand \
                             -base64 48`",
                            index + 1
                        )
                    })?;
                    keys.push(key);
                }
            }
            if keys.len() == before {
                return Err(format!("{name} contains no ticket key"));
            }
            if keys.len() > KEYS_MAX {
                return Err(format!(
                    "{name}: more than {KEYS_MAX} ticket keys: keep the current one first and two \
                     previous ones"
                ));
            }
        }
        if keys.is_empty() {
            return Err("no ticket key".to_owned());
        }
        Ok(Self(Arc::new(StaticTicketer { keys, random: provider.secure_random })))
    }

    /// Returns what seals tickets that only the same keys open, for the same `context`.
    pub(super) fn with_context(&self, context: [u8; CONTEXT_BYTES]) -> Arc<dyn ProducesTickets> {
        Arc::new(ContextTicketer { inner: Arc::clone(&self.0), context })
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TicketKeys").finish_non_exhaustive()
    }
}

/// A key, and the name by which tickets refer to it.
struct StaticKey {
    name: [u8; NAME_BYTES],
    cipher: XChaCha20Poly1305,
}

impl StaticKey {
    fn parse(line: &[u8]) -> Option<Self> {
        let bytes = BASE64_STANDARD.decode(line).ok()?;
        let (name, key) = bytes.split_first_chunk()?;
        let key: &[u8; KEY_BYTES] = key.try_into().ok()?;
        Some(Self { name: *name, cipher: XChaCha20Poly1305::new(key.into()) })
    }
}

/// Seals tickets with keys that do not change. A ticket is the name of its key, a random nonce of
/// 192 bits, and XChaCha20-Poly1305 of the session with the name as associated data.
struct StaticTicketer {
    keys: Vec<StaticKey>,
    random: &'static dyn SecureRandom,
}

impl fmt::Debug for StaticTicketer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "StaticTicketer({})", self.keys.len())
    }
}

impl ProducesTickets for StaticTicketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_SECONDS
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let StaticKey { name, cipher } = self.keys.first()?;
        let mut nonce = [0; NONCE_BYTES];
        self.random.fill(&mut nonce).ok()?;
        let payload = Payload { msg: plain, aad: name };
        let sealed = cipher.encrypt(&XNonce::from(nonce), payload).ok()?;
        Some([&name[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let StaticKey { cipher, .. } = self.keys.iter().find(|key| key.name == *name)?;
        cipher.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: name }).ok()
    }
}

/// Seals tickets that are opened only in the same context, such as the same authorities and
/// revocation lists of clients: a resumed session does not verify the certificate again.
#[derive(Debug)]
struct ContextTicketer {
    inner: Arc<dyn ProducesTickets>,
    context: [u8; CONTEXT_BYTES],
}

impl ProducesTickets for ContextTicketer {
    fn enabled(&self) -> bool {
        self.inner.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.inner.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.inner.encrypt(&[&self.context, plain].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let mut opened = self.inner.decrypt(ticket)?;
        if !opened.starts_with(&self.context) {
            return None;
        }
        opened.drain(..CONTEXT_BYTES);
        Some(opened)
    }
}

#[cfg(feature = "_tls")]
#[cfg(test)]
mod tests {
    use super::*;

    /// A line with a key of this number.
    fn line(number: u8) -> String {
        BASE64_STANDARD.encode([number; NAME_BYTES + KEY_BYTES]) + "\n"
    }

    fn keys(numbers: &[u8]) -> TicketKeys {
        let text: String = numbers.iter().map(|number| line(*number)).collect();
        TicketKeys::from_texts([(text.as_bytes(), "tickets.key")]).unwrap()
    }

    #[test]
    fn ticket_opens_with_current_or_previous_key() {
        let ticket = keys(&[1]).0.encrypt(b"session").unwrap();
        for numbers in [&[1][..], &[2, 1], &[3, 2, 1]] {
            assert_eq!(keys(numbers).0.decrypt(&ticket).unwrap(), b"session", "{numbers:?}");
        }
        assert_eq!(keys(&[2, 3]).0.decrypt(&ticket), None);
        assert_ne!(keys(&[1]).0.encrypt(b"session").unwrap(), ticket);
    }

    #[test]
    fn altered_or_short_ticket_opens_nothing() {
        let keys = keys(&[1]);
        let ticket = keys.0.encrypt(b"session").unwrap();
        for index in 0..ticket.len() {
            let mut altered = ticket.clone();
            altered[index] ^= 1;
            assert_eq!(keys.0.decrypt(&altered), None, "{index}");
            assert_eq!(keys.0.decrypt(&ticket[..index]), None, "{index}");
        }
    }

    #[test]
    fn ticket_of_another_context_opens_nothing() {
        for keys in [keys(&[1]), TicketKeys::random().unwrap()] {
            let [one, same, other] = [1, 1, 2].map(|it| keys.with_context([it; CONTEXT_BYTES]));
            let ticket = one.encrypt(b"session").unwrap();
            assert_eq!(same.decrypt(&ticket).unwrap(), b"session");
            assert_eq!(other.decrypt(&ticket), None);
        }
    }

    #[test]
    fn unusable_ticket_key_file_is_error() {
        let four: String = (1..=4).map(line).collect();
        for (text, part) in [
            ("", "tickets.key contains no ticket key"),
            ("# none\n\n", "tickets.key contains no ticket key"),
            ("# one\nAAAA\n", "tickets.key:2: not a ticket key"),
            (&line(1).repeat(2).replacen('\n', "", 1), "tickets.key:1: not a ticket key"),
            (&four, "more than 3 ticket keys"),
        ] {
            let error = TicketKeys::from_texts([(text.as_bytes(), "tickets.key")]).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let spaced = format!("# current\r\n{}\r\n\n", line(1).trim());
        assert!(TicketKeys::from_texts([(spaced.as_bytes(), "tickets.key")]).is_ok());
    }
}
