//! Params of `prompts/get`.

use super::members::{StringMap, require_params, require_string};
use crate::error::Error;
use crate::json::Value;

/// The params of `prompts/get`.
#[derive(Clone, Copy, Debug)]
pub struct GetPromptRequestParams<'a> {
    /// Name of the prompt.
    pub name: &'a str,
    /// Values of its arguments.
    pub arguments: StringMap<'a>,
}

impl<'a> GetPromptRequestParams<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if the name is missing, duplicated or not a string, or the arguments
    /// are not an object of strings.
    ///
    /// MCP: `server/prompts`, "Getting a Prompt", of each revision.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [name, arguments] = require_params(params)?.find_unique(["name", "arguments"])?;
        Ok(Self {
            name: require_string(name, "params.name")?,
            arguments: StringMap::read(arguments, "params.arguments")?,
        })
    }
}
