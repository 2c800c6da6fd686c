//! Stands for key sets where the library is built without JWT.

use serde_json::{Map, Value};

use super::SignatureError;

/// The keys of one issuer; there are none.
#[derive(Debug)]
pub enum KeySet {}

impl KeySet {
    /// Fails: this build verifies no JWT.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn parse(_text: &[u8]) -> Result<Self, String> {
        Err("this build verifies no JWT: build with the feature oauth-jwt".to_owned())
    }

    /// Never called, as there is no key set.
    ///
    /// # Errors
    ///
    /// None.
    pub fn verify(
        &self,
        _key: (&str, Option<&str>),
        _message: &[u8],
        _signature: &str,
    ) -> Result<(), SignatureError> {
        match *self {}
    }
}

/// The public key in a proof; it is never read.
#[derive(Debug)]
pub enum EmbeddedKey {}

impl EmbeddedKey {
    /// Returns `None`: this build verifies no signatures.
    pub const fn read(_jwk: &Map<String, Value>) -> Option<Self> {
        None
    }

    /// Never called, as there is no key.
    pub const fn thumbprint(&self) -> &[u8; 32] {
        match *self {}
    }

    /// Never called, as there is no key.
    pub const fn verify(&self, _algorithm: &str, _message: &[u8], _signature: &str) -> bool {
        match *self {}
    }
}
