//! JSON Schemas derived from Rust types.
//!
//! JSON Schema 2020-12 is the default dialect of MCP (2025-11-25, basic, "JSON Schema usage"), so
//! `$schema` is omitted. Subschemas are inlined, because many clients do not follow `$ref`; only
//! recursive types use it.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The schema of values that deserialize into `T`.
pub(super) fn derive_input_schema<T: JsonSchema>() -> Value {
    derive_schema::<T>(schema_settings().for_deserialize())
}

/// The schema of values that `T` serializes into.
pub(super) fn derive_output_schema<T: JsonSchema>() -> Value {
    derive_schema::<T>(schema_settings().for_serialize())
}

fn schema_settings() -> SchemaSettings {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    settings.with_transform(RecursiveTransform(remove_number_format))
}

fn derive_schema<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of a Rust type is useless to a model; a title set by the author is kept.
    if schema.get("title").and_then(Value::as_str) == Some(&*T::schema_name()) {
        schema.remove("title");
    }
    schema.to_value()
}

/// Removes the `format` of numbers, such as `uint64`: it names a Rust type, and JSON Schema does
/// not define it. The bounds of the type are in `minimum` and `maximum`.
fn remove_number_format(schema: &mut Schema) {
    let is_number = |kind: &Value| {
        matches!(kind.as_str(), Some("integer" | "number"))
            || kind.as_array().is_some_and(|kinds| {
                kinds.iter().any(|kind| matches!(kind.as_str(), Some("integer" | "number")))
            })
    };
    if schema.get("type").is_some_and(is_number) {
        schema.remove("format");
    }
}
