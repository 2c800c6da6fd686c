//! Params of requests for one resource.

use super::members::{require_params, require_string};
use crate::error::Error;
use crate::json::Value;

/// The params of `resources/read`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadResourceRequestParams<'a> {
    /// URI of the resource, as the client sent it.
    pub uri: &'a str,
}

impl<'a> ReadResourceRequestParams<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `uri` is missing, duplicated or not a string.
    ///
    /// MCP: `server/resources`, "Reading Resources", of each revision.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [uri] = require_params(params)?.find_unique(["uri"])?;
        Ok(Self { uri: require_string(uri, "params.uri")? })
    }
}

/// The params of `resources/subscribe` and `resources/unsubscribe`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SubscribeRequestParams<'a> {
    /// URI of the resource, as the client sent it.
    pub uri: &'a str,
}

impl<'a> SubscribeRequestParams<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `uri` is missing, duplicated or not a string.
    ///
    /// MCP: `server/resources`, "Subscriptions", 2024-11-05 to 2025-11-25.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [uri] = require_params(params)?.find_unique(["uri"])?;
        Ok(Self { uri: require_string(uri, "params.uri")? })
    }
}
