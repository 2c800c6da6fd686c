//! JSON Schemas of tools, adapted to what every revision accepts, and the validation of structured
//! results against the `outputSchema`.
//!
//! An input schema has `"type": "object"` at its root, and each property is a schema object: JSON
//! Schema 2020-12 allows a bare `true`, but MCP revisions up to 2025-11-25 do not.
//!
//! Unless validation is skipped, a result that does not conform is replaced by an internal error.
//!
//! Source: MCP 2025-06-18 and later, server/tools, "Output Schema": "Servers MUST provide
//! structured results that conform to this schema".

use std::borrow::Cow;
use std::sync::Arc;

use corelane_protocol::error::Error;
use corelane_protocol::model::CallToolResultWriter;
use serde_json::{Map, Value, json};

use crate::service::results::{CallToolResult, HandlerError};
use crate::service::schema::CompiledOutputSchema;

/// Adapts `schema` to be an `inputSchema`; `Err` is phrased to follow "tool `name`: ".
pub(super) fn prepare_input_schema(schema: Value) -> Result<Value, &'static str> {
    let Value::Object(mut schema) = schema else {
        return Err("the input schema is not a JSON object");
    };
    match schema.get("type") {
        // Schemas with `oneOf` or `$ref` may have no type. Arguments are always an object, so
        // adding it excludes nothing.
        None => {
            schema.shift_insert(0, String::from("type"), json!("object"));
        }
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return Err("the input schema must have type `object`"),
    }
    expand_boolean_properties(&mut schema);
    Ok(Value::Object(schema))
}

/// Adapts `schema` to be an `outputSchema`; `Err` is phrased to follow "tool `name`: ".
pub(super) fn prepare_output_schema(schema: Value) -> Result<Value, &'static str> {
    let Value::Object(mut schema) = schema else {
        return Err("the output schema is not a JSON object");
    };
    expand_boolean_properties(&mut schema);
    Ok(Value::Object(schema))
}

/// Whether `schema` has type `object`, which revisions up to 2025-11-25 require of an
/// `outputSchema`.
pub(super) fn is_object_schema(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

fn expand_boolean_properties(schema: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for property in properties.values_mut() {
        match property {
            Value::Bool(true) => *property = json!({}),
            Value::Bool(false) => *property = json!({ "not": {} }),
            _ => {}
        }
    }
}

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

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::service::schema::{derive_input_schema, derive_output_schema};

    #[derive(Deserialize, JsonSchema, Serialize)]
    struct Search {
        /// Text to search for.
        query: String,
        #[serde(default)]
        count_max: Option<u32>,
        anything: Value,
    }

    #[derive(Deserialize, JsonSchema, Serialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Shape {
        Circle { radius: f64 },
        Square { side: f64 },
    }

    #[test]
    fn struct_schema_has_object_type_and_descriptions() {
        let schema = prepare_input_schema(derive_input_schema::<Search>()).unwrap();
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["properties"]["query"]["description"], "Text to search for.");
        assert_eq!(schema["required"], json!(["query", "anything"]));
        assert_eq!(schema.get("title"), None, "the name of the Rust type is removed");
        assert_eq!(schema.get("$schema"), None);
        assert_eq!(schema["properties"]["anything"], json!({}), "a bare `true` is expanded");
        assert!(!schema.to_string().contains("uint32"), "{schema}");
    }

    #[test]
    fn enum_schema_gets_object_type() {
        let schema = prepare_input_schema(derive_input_schema::<Shape>()).unwrap();
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["oneOf"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn input_schema_must_be_an_object() {
        assert!(prepare_input_schema(derive_input_schema::<String>()).is_err());
        assert!(prepare_input_schema(derive_input_schema::<Option<Search>>()).is_err());
        assert!(prepare_input_schema(json!(true)).is_err());
        assert!(prepare_input_schema(json!({ "type": ["object", "null"] })).is_err());
    }

    #[test]
    fn output_schema_may_have_any_type() {
        let schema = prepare_output_schema(derive_output_schema::<Vec<u32>>()).unwrap();
        assert!(!is_object_schema(&schema));
        assert!(is_object_schema(
            &prepare_output_schema(derive_output_schema::<Search>()).unwrap()
        ));
    }
}
