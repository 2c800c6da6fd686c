//! Params of `completion/complete`.

use super::members::{
    StringMap, invalid_member, non_null, require_object, require_params, require_string,
};
use crate::error::Error;
use crate::json::Value;

/// The params of `completion/complete`.
#[derive(Clone, Copy, Debug)]
pub struct CompleteRequestParams<'a> {
    /// The prompt or resource template that the argument belongs to.
    pub reference: CompletionReference<'a>,
    /// Name of the argument to complete.
    pub argument_name: &'a str,
    /// Value typed so far.
    pub argument_value: &'a str,
    /// Values of the other arguments that are already set (2025-06-18 and later).
    pub context_arguments: StringMap<'a>,
}

/// Subject of a completion: `ref/prompt` or `ref/resource`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CompletionReference<'a> {
    /// Name of a prompt.
    Prompt(&'a str),
    /// URI template of a resource template, or URI of a resource.
    Resource(&'a str),
}

impl<'a> CompleteRequestParams<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if the type of `ref` is neither `ref/prompt` nor `ref/resource`, or
    /// a member is missing, duplicated or not a string.
    ///
    /// MCP: `server/utilities/completion` of each revision.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [reference, argument, context] =
            require_params(params)?.find_unique(["ref", "argument", "context"])?;
        let [name, value] =
            require_object(argument, "params.argument")?.find_unique(["name", "value"])?;
        let context = match non_null(context) {
            Some(context) => {
                let [arguments] =
                    require_object(Some(context), "params.context")?.find_unique(["arguments"])?;
                StringMap::read(arguments, "params.context.arguments")?
            }
            None => StringMap::default(),
        };
        Ok(Self {
            reference: CompletionReference::read(reference)?,
            argument_name: require_string(name, "params.argument.name")?,
            argument_value: require_string(value, "params.argument.value")?,
            context_arguments: context,
        })
    }
}

impl<'a> CompletionReference<'a> {
    /// Returns the name or the URI.
    pub const fn name(self) -> &'a str {
        let (Self::Prompt(name) | Self::Resource(name)) = self;
        name
    }

    fn read(value: Option<Value<'a>>) -> Result<Self, Error> {
        let keys = ["type", "name", "uri"];
        let [kind, name, uri] = require_object(value, "params.ref")?.find_unique(keys)?;
        match require_string(kind, "params.ref.type")? {
            "ref/prompt" => Ok(Self::Prompt(require_string(name, "params.ref.name")?)),
            "ref/resource" => Ok(Self::Resource(require_string(uri, "params.ref.uri")?)),
            _ => Err(invalid_member("params.ref.type", "\"ref/prompt\" or \"ref/resource\"")),
        }
    }
}
