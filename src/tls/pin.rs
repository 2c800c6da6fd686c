//! The public key that a server must have.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
#[cfg(feature = "_tls")]
use sha2::{Digest, Sha256};

/// SHA-256 of the `SubjectPublicKeyInfo` of a certificate (RFC 7469, section 2.4).
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Pin([u8; 32]);

impl Pin {
    /// Reads a pin as RFC 7469 writes it: 32 bytes in base64.
    ///
    /// # Errors
    ///
    /// What a pin looks like.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bytes = BASE64_STANDARD.decode(text).ok();
        let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| {
            format!(
                "'{text}' is not a pin: write the SHA-256 of the public key of the server in \
                 base64, 44 characters"
            )
        })
    }

    /// Returns the pin of a `SubjectPublicKeyInfo` in DER.
    #[cfg(feature = "_tls")]
    pub fn of_public_key(public_key: &[u8]) -> Self {
        Self(Sha256::digest(public_key).into())
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&BASE64_STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pin({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pin_is_read_and_written_in_base64() {
        // RFC 7469, section 2.1.5.
        let text = "d6qzRu9zOECb90Uez27xWltNsj0e1Md7GkYYkVoZWmM=";
        assert_eq!(Pin::parse(text).unwrap().to_string(), text);
        for invalid in ["", "d6qz", "sha256//d6qzRu9zOECb90Uez27xWltNsj0e1Md7GkYYkVoZWmM=", "é"] {
            assert!(Pin::parse(invalid).unwrap_err().contains("44 characters"), "{invalid}");
        }
    }

    #[cfg(feature = "_tls")]
    #[test]
    fn pin_is_sha256_of_public_key() {
        // printf abc | openssl dgst -sha256 -binary | base64
        let expected = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
        assert_eq!(Pin::of_public_key(b"abc").to_string(), expected);
    }
}
