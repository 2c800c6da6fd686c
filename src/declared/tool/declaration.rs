//! `[[tool]]` as it is written.

use std::path::PathBuf;

use crate::declared::action::declaration;
use crate::declared::arguments::ArgumentTables;
use crate::declared::metadata::{AnnotationsDeclaration, IconDeclaration, yes};

declaration! {
    /// A tool. It has exactly one of `command`, `http`, `sql`, `file` and `text`.
    pub struct ToolDeclaration {
        /// Name: 1 to 64 characters of `A-Z a-z 0-9 _ . -`.
        pub name: String,
        /// Display name for people.
        #[serde(default)]
        pub title: Option<String>,
        /// What the tool does, for the model that decides whether to call it.
        #[serde(default)]
        pub description: Option<String>,
        /// Icons.
        #[serde(default)]
        pub icons: Vec<IconDeclaration>,
        /// Hints about the effects of the tool.
        #[serde(default)]
        pub annotations: Option<AnnotationsDeclaration>,
        /// Scopes that a caller must have in its token.
        #[serde(default)]
        pub scopes: Vec<String>,
        /// Whether the tool is offered. Default `true`.
        #[serde(default = "yes")]
        pub enabled: bool,
        /// Arguments by name, each a JSON Schema with `required`, `dash` and `within`.
        #[serde(default)]
        pub arguments: Option<ArgumentTables>,
        /// A file with the JSON Schema of all arguments, in place of `arguments`.
        #[serde(default)]
        pub schema: Option<PathBuf>,
        /// A file with the JSON Schema of the structured result.
        #[serde(default)]
        pub output_schema: Option<PathBuf>,
    }
}
