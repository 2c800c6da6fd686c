//! Stands for the keys where the library is built without them.

use super::{Claims, ProofTarget};
use crate::error::ClientError;

/// The private key of a client; there is none.
#[derive(Debug)]
pub enum ClientKey {}

impl ClientKey {
    pub fn assertion(
        &self,
        _client_id: &str,
        _audience: &str,
        _claims: Claims<'_>,
    ) -> Result<String, ClientError> {
        match *self {}
    }
}

/// The key of proofs of possession; there is none.
#[derive(Debug)]
pub enum DpopKey {}

impl DpopKey {
    pub fn generate() -> Result<Self, ClientError> {
        let text = "the server requires DPoP, which this build does not support: build it with \
                    the feature oauth-jwt";
        Err(ClientError::authorization(text))
    }

    pub fn decode(_text: &str) -> Option<Self> {
        None
    }

    pub fn encode(&self) -> String {
        match *self {}
    }

    pub fn proof(
        &self,
        _target: &ProofTarget<'_>,
        _claims: Claims<'_>,
    ) -> Result<String, ClientError> {
        match *self {}
    }
}
