//! What a tool handler may return.

use std::borrow::Cow;

use corelane_protocol::model::{CallToolResultWriter, Content, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::service::derived_schema::derive_output_schema;
use crate::service::results::{CallToolResult, HandlerError};

/// A value that a tool handler returns.
///
/// | type | result |
/// | --- | --- |
/// | `&'static str`, `String`, `Cow<'static, str>` | one text block |
/// | `()` | no content |
/// | [`Structured<T>`] | `structuredContent`, the same JSON as text, and the `outputSchema` of `T` |
/// | [`Content`], [`ContentBlock`], `Vec` of either | content blocks |
/// | [`CallToolResult`] | itself |
/// | `Result` of any of these and [`HandlerError`] | the value, or the error |
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool: return `String`, `&'static str`, `()`, \
               `Structured<T>`, `Content`, `Vec<Content>`, `CallToolResult`, or a `Result` of one \
               of these with `HandlerError`",
    label = "not the result of a tool",
    note = "`?` converts every error to `HandlerError`"
)]
pub trait IntoCallToolResult {
    /// Converts the value.
    fn into_call_tool_result(self) -> Result<CallToolResult, HandlerError>;

    /// Writes the value to an empty `writer`. After an error, what was written is void.
    fn write_as_result(self, writer: &mut CallToolResultWriter<'_>) -> Result<(), HandlerError>
    where
        Self: Sized,
    {
        self.into_call_tool_result()?.write_to(writer).map_err(HandlerError::Rpc)
    }

    /// The `outputSchema` of a tool that returns this type, or `None`.
    fn output_schema() -> Option<Value> {
        None
    }
}

/// A structured result: sent as `structuredContent` (since 2025-06-18), and as JSON text to every
/// revision. The schema of `T` becomes the `outputSchema` of the tool.
///
/// ```
/// use corelane::{Structured, Tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add {
///     a: i64,
///     b: i64,
/// }
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Sum {
///     sum: i64,
/// }
///
/// let tool = Tool::new("add").inline(|Add { a, b }, _| Structured(Sum { sum: a + b }));
/// # drop(tool);
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Structured<T>(pub T);

impl<T: Serialize + JsonSchema> IntoCallToolResult for Structured<T> {
    fn into_call_tool_result(self) -> Result<CallToolResult, HandlerError> {
        CallToolResult::structured(&self.0)
    }

    fn write_as_result(self, writer: &mut CallToolResultWriter<'_>) -> Result<(), HandlerError> {
        writer.structured_content(&self.0)?;
        Ok(())
    }

    fn output_schema() -> Option<Value> {
        Some(derive_output_schema::<T>())
    }
}

/// Implements the trait for types that hold a text.
macro_rules! text_results {
    ($($text:ty),+) => {$(
        impl IntoCallToolResult for $text {
            fn into_call_tool_result(self) -> Result<CallToolResult, HandlerError> {
                Ok(CallToolResult::text(self))
            }

            fn write_as_result(
                self,
                writer: &mut CallToolResultWriter<'_>,
            ) -> Result<(), HandlerError> {
                writer.text(&self);
                Ok(())
            }
        }
    )+};
}

text_results!(&'static str, String, Cow<'static, str>);

impl IntoCallToolResult for () {
    fn into_call_tool_result(self) -> Result<CallToolResult, HandlerError> {
        Ok(CallToolResult::default())
    }
}

impl IntoCallToolResult for CallToolResult {
    fn into_call_tool_result(self) -> Result<CallToolResult, HandlerError> {
        Ok(self)
    }
}

impl IntoCallToolResult for Content {
    fn into_call_tool_result(self) -> Result<CallToolResult, HandlerError> {
        Ok(CallToolResult::default().with_content(self))
    }
}

impl IntoCallToolResult for ContentBlock {
    fn into_call_tool_result(self) -> Result<CallToolResult, HandlerError> {
        Ok(CallToolResult::default().with_content(self))
    }
}

impl<C: Into<ContentBlock>> IntoCallToolResult for Vec<C> {
    fn into_call_tool_result(self) -> Result<CallToolResult, HandlerError> {
        Ok(self.into_iter().fold(CallToolResult::default(), CallToolResult::with_content))
    }
}

impl<R: IntoCallToolResult> IntoCallToolResult for Result<R, HandlerError> {
    fn into_call_tool_result(self) -> Result<CallToolResult, HandlerError> {
        self?.into_call_tool_result()
    }

    fn write_as_result(self, writer: &mut CallToolResultWriter<'_>) -> Result<(), HandlerError> {
        self?.write_as_result(writer)
    }

    fn output_schema() -> Option<Value> {
        R::output_schema()
    }
}
