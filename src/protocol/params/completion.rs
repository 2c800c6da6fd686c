//! The params of a question how an argument may go on.

use super::fields::{Texts, members, object, present, text, wrong};
use crate::protocol::error::Error;
use crate::protocol::json::Value;

/// The params of `completion/complete`.
#[derive(Clone, Copy, Debug)]
pub struct Complete<'a> {
    /// Whose argument it is.
    pub reference: Reference<'a>,
    /// The argument that is being typed.
    pub argument: &'a str,
    /// What was typed so far.
    pub value: &'a str,
    /// The other arguments, as far as they are filled in (2025-06-18 and later).
    pub context: Texts<'a>,
}

/// What an argument belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reference<'a> {
    /// A prompt, by its name.
    Prompt(&'a str),
    /// A resource template, by its template; or a resource, by its URI.
    Resource(&'a str),
}

impl<'a> Complete<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where the reference is neither `ref/prompt` nor `ref/resource`, or a
    /// member is missing, twice or not a string.
    ///
    /// Source: `server/utilities/completion` of each revision.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [reference, argument, context] =
            object(params)?.once(["ref", "argument", "context"])?;
        let [name, value] = members(argument, "params.argument")?.once(["name", "value"])?;
        let context = match present(context) {
            Some(context) => {
                let [filled] = members(Some(context), "params.context")?.once(["arguments"])?;
                Texts::read(filled, "params.context.arguments")?
            }
            None => Texts::default(),
        };
        Ok(Self {
            reference: Reference::read(reference)?,
            argument: text(name, "params.argument.name")?,
            value: text(value, "params.argument.value")?,
            context,
        })
    }
}

impl<'a> Reference<'a> {
    fn read(value: Option<Value<'a>>) -> Result<Self, Error> {
        let keys = ["type", "name", "uri"];
        let [kind, name, uri] = members(value, "params.ref")?.once(keys)?;
        match text(kind, "params.ref.type")? {
            "ref/prompt" => Ok(Self::Prompt(text(name, "params.ref.name")?)),
            "ref/resource" => Ok(Self::Resource(text(uri, "params.ref.uri")?)),
            _ => Err(wrong("params.ref.type", "\"ref/prompt\" or \"ref/resource\"")),
        }
    }
}
