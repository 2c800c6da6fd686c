//! What a tool handler may take as its arguments.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// The arguments of a tool: every type that implements [`serde::Deserialize`] without borrowing,
/// and [`schemars::JsonSchema`]. Derive both; do not implement this trait.
///
/// The schema of the type becomes the input schema of the tool, and doc comments its descriptions.
/// A tool without arguments takes [`NoArguments`](crate::service::NoArguments).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of a tool: derive `serde::Deserialize` and \
               `schemars::JsonSchema` (schemars 1), or take `NoArguments`",
    label = "not the arguments of a tool",
    note = "fields own their data: `String` instead of `&str`"
)]
pub trait ToolArguments: DeserializeOwned + JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> ToolArguments for T {}
