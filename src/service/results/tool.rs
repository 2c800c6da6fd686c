//! Result of a tool call (`tools/call`), and what a tool handler may return instead.

use std::borrow::Cow;
use std::sync::OnceLock;

use bytes::Bytes;
use corelane_base::heap_bytes::HeapBytes;
use corelane_protocol::error::Error;
use corelane_protocol::model::{
    CallToolResultWriter, Content, ContentBlock, ResourceContents, ResourceLink,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::service::results::error::HandlerError;
use crate::service::schema::derive_output_schema;

/// Result of a local or blocking tool handler: content blocks, an optional structured result, and
/// whether the tool failed.
///
/// ```
/// use corelane::CallToolResult;
///
/// let result = CallToolResult::text("3 files").with_text("a.txt, b.txt, c.txt");
/// # drop(result);
/// ```
#[derive(Clone, Debug, Default)]
pub struct CallToolResult {
    content: Vec<ContentBlock>,
    /// Boxed, because results are moved often and most have none.
    structured: Option<Box<StructuredContent>>,
    /// Members of `_meta`, boxed for the same reason.
    meta: Option<Box<Map<String, Value>>>,
    is_error: bool,
}

/// A structured result.
#[derive(Clone, Debug)]
enum StructuredContent {
    Value(Value),
    /// Encoded already; the value is read if somebody asks for it.
    Encoded {
        text: Box<RawValue>,
        value: OnceLock<Value>,
    },
}

impl CallToolResult {
    /// One text block.
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::default().with_text(text)
    }

    /// A structured result: `structuredContent` (since 2025-06-18), and the same JSON as a text
    /// block for all revisions.
    ///
    /// Fails with an internal error (-32603) if `value` does not serialize to JSON, such as a map
    /// whose keys are not strings.
    pub fn structured<T: Serialize + ?Sized>(value: &T) -> Result<Self, HandlerError> {
        let structured = serde_json::to_value(value)
            .map_err(|_| Error::internal("the tool's result does not serialize to JSON"))?;
        Ok(Self::structured_value(structured))
    }

    /// A structured result that is a JSON value already.
    pub(crate) fn structured_value(value: Value) -> Self {
        Self { structured: Some(Box::new(StructuredContent::Value(value))), ..Self::default() }
    }

    /// A structured result that is JSON already, such as that of a database: it is sent as it is,
    /// without a copy of its values. Line breaks between its parts become spaces. Its form is
    /// checked, but not that its numbers and escaped characters can be represented:
    /// [`CallToolResult::structured_content`] is `null` then.
    ///
    /// ```
    /// use corelane::CallToolResult;
    ///
    /// let result = CallToolResult::structured_json("{\"rows\":[1,2]}")?;
    /// # drop(result);
    /// # Ok::<(), corelane::HandlerError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Internal error (-32603): `json` is not JSON.
    pub fn structured_json(json: impl Into<String>) -> Result<Self, HandlerError> {
        let json = json.into();
        let invalid = |error: serde_json::Error| {
            Error::internal(format!("the tool's result is not JSON: {error}"))
        };
        let mut text = RawValue::from_string(json).map_err(invalid)?;
        if memchr::memchr2(b'\n', b'\r', text.get().as_bytes()).is_some() {
            // They stand between its parts: valid strings have none.
            let line = text.get().replace(['\n', '\r'], " ");
            text = RawValue::from_string(line).map_err(invalid)?;
        }
        let content = StructuredContent::Encoded { text, value: OnceLock::new() };
        Ok(Self { structured: Some(Box::new(content)), ..Self::default() })
    }

    /// A failed call (`isError: true`). The model reads `text`: say what went wrong and what to do
    /// about it.
    pub fn error(text: impl Into<Cow<'static, str>>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Adds a text block.
    #[must_use]
    pub fn with_text(self, text: impl Into<Cow<'static, str>>) -> Self {
        self.with_content(Content::text(text))
    }

    /// Adds a block of any kind. Kinds that the client's revision does not define are replaced by a
    /// text that describes them.
    #[must_use]
    pub fn with_content(mut self, block: impl Into<ContentBlock>) -> Self {
        self.content.push(block.into());
        self
    }

    /// Adds an image block.
    #[must_use]
    pub fn with_image(
        self,
        data: impl Into<Bytes>,
        mime_type: impl Into<Cow<'static, str>>,
    ) -> Self {
        self.with_content(Content::image(data, mime_type))
    }

    /// Adds an audio block (since 2025-03-26).
    #[must_use]
    pub fn with_audio(
        self,
        data: impl Into<Bytes>,
        mime_type: impl Into<Cow<'static, str>>,
    ) -> Self {
        self.with_content(Content::audio(data, mime_type))
    }

    /// Adds a link to a resource (since 2025-06-18).
    #[must_use]
    pub fn with_resource_link(self, link: ResourceLink) -> Self {
        self.with_content(Content::ResourceLink(link))
    }

    /// Adds an embedded resource with its contents.
    #[must_use]
    pub fn with_embedded_resource(self, resource: ResourceContents) -> Self {
        self.with_content(Content::EmbeddedResource(resource))
    }

    /// Adds a member to `_meta` of the result. Keys whose prefix contains `modelcontextprotocol` or
    /// `mcp` are reserved.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    /// Whether the call failed (`isError`).
    pub const fn is_error(&self) -> bool {
        self.is_error
    }

    /// The structured result, or `None`.
    pub fn structured_content(&self) -> Option<&Value> {
        Some(match self.structured.as_deref()? {
            StructuredContent::Value(value) => value,
            StructuredContent::Encoded { text, value } => {
                value.get_or_init(|| serde_json::from_str(text.get()).unwrap_or_default())
            }
        })
    }

    /// Writes the result to an empty `writer`.
    #[doc(hidden)]
    pub fn write_to(&self, writer: &mut CallToolResultWriter<'_>) -> Result<(), Error> {
        for block in &self.content {
            writer.content_block(block);
        }
        match self.structured.as_deref() {
            Some(StructuredContent::Value(value)) => drop(writer.structured_content(value)?),
            Some(StructuredContent::Encoded { text, .. }) => drop(writer.structured_content(text)?),
            None => {}
        }
        for (key, value) in self.meta.iter().flat_map(|meta| meta.iter()) {
            writer.meta(key, value);
        }
        if self.is_error {
            writer.mark_error();
        }
        Ok(())
    }

    /// Writes the return value of a local or blocking handler to an empty `writer`.
    ///
    /// Fails with the JSON-RPC error to send instead; what was written is void then.
    #[doc(hidden)]
    pub fn write_result(
        result: Result<Self, HandlerError>,
        writer: &mut CallToolResultWriter<'_>,
    ) -> Result<(), Error> {
        match result {
            Ok(outcome) => outcome.write_to(writer),
            Err(error) => error.write_to(writer),
        }
    }
}

impl HeapBytes for CallToolResult {
    fn heap_bytes(&self) -> usize {
        let structured = self.structured.as_deref().map_or(0, |structured| {
            size_of::<StructuredContent>()
                + match structured {
                    StructuredContent::Value(value) => value.heap_bytes(),
                    StructuredContent::Encoded { text, value } => {
                        text.get().len() + value.get().map_or(0, HeapBytes::heap_bytes)
                    }
                }
        });
        self.content.heap_bytes()
            + structured
            + self.meta.as_deref().map_or(0, HeapBytes::heap_bytes)
    }
}

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
    /// Converts the value; an `Err` of it is the error of the handler.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn encoded_result_is_one_line_of_json() {
        let result = CallToolResult::structured_json("{\n\"a\\n\": [1,\r\n2]}").unwrap();
        assert_eq!(result.structured_content(), Some(&json!({ "a\n": [1, 2] })));
        let Some(StructuredContent::Encoded { text, .. }) = result.structured.as_deref() else {
            panic!("not encoded");
        };
        assert!(!text.get().contains(['\n', '\r']));
        for invalid in ["{\"a\":1}}", "{\"a\nb\":1}", ""] {
            assert!(CallToolResult::structured_json(invalid).is_err(), "{invalid}");
        }
    }
}
