//! The params that name a resource.

use super::fields::{object, text};
use crate::protocol::error::Error;
use crate::protocol::json::Value;

/// The params of `resources/read`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadResource<'a> {
    /// The resource, as the client wrote it.
    pub uri: &'a str,
}

impl<'a> ReadResource<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where `uri` is missing, twice or no string.
    ///
    /// Source: `server/resources`, "Reading Resources", of each revision.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [uri] = object(params)?.once(["uri"])?;
        Ok(Self { uri: text(uri, "params.uri")? })
    }
}

/// The params of `resources/subscribe` and `resources/unsubscribe`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Subscribe<'a> {
    /// The resource, as the client wrote it.
    pub uri: &'a str,
}

impl<'a> Subscribe<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where `uri` is missing, twice or no string.
    ///
    /// Source: `server/resources`, "Subscriptions", 2024-11-05 to 2025-11-25.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [uri] = object(params)?.once(["uri"])?;
        Ok(Self { uri: text(uri, "params.uri")? })
    }
}
