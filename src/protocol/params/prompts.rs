//! The params that name a prompt.

use super::fields::{Texts, object, text};
use crate::protocol::error::Error;
use crate::protocol::json::Value;

/// The params of `prompts/get`.
#[derive(Clone, Copy, Debug)]
pub struct GetPrompt<'a> {
    /// The prompt.
    pub name: &'a str,
    /// What its arguments are filled with.
    pub arguments: Texts<'a>,
}

impl<'a> GetPrompt<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where the name is missing, twice or no string, or the arguments are
    /// not an object of strings.
    ///
    /// Source: `server/prompts`, "Getting a Prompt", of each revision.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [name, arguments] = object(params)?.once(["name", "arguments"])?;
        Ok(Self {
            name: text(name, "params.name")?,
            arguments: Texts::read(arguments, "params.arguments")?,
        })
    }
}
