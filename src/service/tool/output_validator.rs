//! Validation of structured results against the `outputSchema` of a tool.
//!
//! Unless validation is skipped, a result that does not conform is replaced by an internal error.
//!
//! Source: MCP 2025-06-18 and later, server/tools, "Output Schema": "Servers MUST provide
//! structured results that conform to this schema".

use std::borrow::Cow;
use std::sync::Arc;

use corelane_protocol::error::Error;
use corelane_protocol::model::CallToolResultWriter;
use serde_json::Value;

use crate::service::results::{CallToolResult, HandlerError};
use crate::service::schema::CompiledOutputSchema;

/// Name and output schema of a tool, and whether results are validated against it.
#[derive(Clone, Debug)]
pub(super) struct OutputValidator {
    tool: Arc<str>,
    is_skipped: bool,
    schema: Option<Arc<CompiledOutputSchema>>,
}

impl OutputValidator {
    /// A validator without a schema, which accepts every result.
    pub(super) fn new(is_skipped: bool) -> Self {
        Self { tool: Arc::default(), is_skipped, schema: None }
    }

    /// Compiles the schema of `tool`; `Err` is phrased to follow "tool `name`: ".
    pub(super) fn compile(
        &mut self,
        tool: Arc<str>,
        schema: Option<&Value>,
    ) -> Result<(), Cow<'static, str>> {
        self.tool = tool;
        let Some(schema) = schema else { return Ok(()) };
        if self.is_skipped && !cfg!(debug_assertions) {
            return Ok(CompiledOutputSchema::check(schema)?);
        }
        self.schema = Some(Arc::new(CompiledOutputSchema::compile(schema)?));
        Ok(())
    }

    /// Validates the result of a local or blocking handler. An internal error gets the name of the
    /// tool.
    pub(super) fn validate(
        &self,
        result: Result<CallToolResult, HandlerError>,
    ) -> Result<CallToolResult, HandlerError> {
        let result = result.map_err(|error| error.in_handler("tool", &self.tool))?;
        match &self.schema {
            Some(schema) if !result.is_error() => {
                check_conformance(schema, result.structured_content())?;
                Ok(result)
            }
            _ => Ok(result),
        }
    }

    /// Validates what an inline handler wrote.
    #[inline]
    pub(super) fn validate_written(
        &self,
        writer: &CallToolResultWriter<'_>,
    ) -> Result<(), HandlerError> {
        match &self.schema {
            Some(schema) if !writer.is_error() => validate_structured_content(schema, writer),
            _ => Ok(()),
        }
    }
}

fn validate_structured_content(
    schema: &CompiledOutputSchema,
    writer: &CallToolResultWriter<'_>,
) -> Result<(), HandlerError> {
    let Some(written) = writer.structured_content_json() else {
        // Revisions without structured results do not list the output schema either.
        return if writer.has_structured_content() {
            Ok(())
        } else {
            check_conformance(schema, None)
        };
    };
    let value: Option<Value> = serde_json::from_slice(written).ok();
    check_conformance(schema, value.as_ref())
}

fn check_conformance(
    schema: &CompiledOutputSchema,
    value: Option<&Value>,
) -> Result<(), HandlerError> {
    let problem = match value {
        Some(value) => match schema.validate(value) {
            Ok(()) => return Ok(()),
            Err(problem) => problem,
        },
        None => String::from("structuredContent is missing"),
    };
    let message = format!("the tool's result does not conform to its outputSchema: {problem}");
    Err(HandlerError::Rpc(Error::internal(message)))
}
