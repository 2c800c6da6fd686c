//! One idempotency key as the client of a session sees it.

use corelane_parity::idempotency::hex;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// One key.
#[derive(Debug, Default)]
pub(crate) struct KeyModel {
    /// Requests that were sent with it.
    pub(crate) sent: u32,
    is_accepted: bool,
    /// Hash of the result, if the response has it.
    result_hash: Option<String>,
}

impl KeyModel {
    /// A request with this key was accepted.
    ///
    /// # Errors
    ///
    /// It is the second one.
    pub(crate) fn check_accepted(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.is_accepted, true) {
            return Err("a request with the same idempotencyKey was accepted".to_owned());
        }
        Ok(())
    }

    /// A request with this key has the result in `response`.
    ///
    /// # Errors
    ///
    /// It is the second one.
    pub(crate) fn check_result(&mut self, response: &[u8]) -> Result<(), String> {
        self.check_accepted()?;
        let start = memchr::memmem::find(response, b"\"result\":").ok_or("no result")? + 9;
        self.result_hash = Some(hex(&Sha256::digest(&response[start..response.len() - 1])));
        Ok(())
    }

    /// A request with this key got an error.
    ///
    /// # Errors
    ///
    /// The hash is not that of the result.
    pub(crate) fn check_error(&mut self, error: &Value) -> Result<(), String> {
        match error["code"].as_str().unwrap_or_default() {
            "error.already_processed" => {
                let hash = error["details"]["resultHash"].as_str();
                let is_other = |hash: &str| {
                    self.result_hash.as_deref().is_some_and(|expected| expected != hash)
                };
                if hash.is_some_and(is_other) {
                    return Err(format!("the result has the hash {:?}", self.result_hash));
                }
                Ok(())
            }
            // It was processed, and has failed.
            "error.internal" => self.check_accepted(),
            _ => Ok(()),
        }
    }
}
