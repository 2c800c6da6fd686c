//! What `[[tool]] command = …` has beside its words.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// What a command gets on standard input.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum InputDeclaration {
    /// Nothing.
    None,
    /// The arguments, as one JSON object.
    Json,
    /// The text of one argument.
    #[serde(untagged)]
    Argument {
        /// Its name.
        argument: String,
    },
}

/// What a command may reach.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxDeclaration {
    /// Folders and files that it may read, beside its program and the libraries of the system.
    pub read: Vec<PathBuf>,
    /// Folders and files that it may write.
    pub write: Vec<PathBuf>,
    /// Whether it may use the network. Default `false`.
    pub network: bool,
}
