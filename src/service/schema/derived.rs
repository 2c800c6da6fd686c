//! JSON Schemas derived from Rust types, and whether one requires more than its type.
//!
//! JSON Schema 2020-12 is the default dialect of MCP (2025-11-25, basic, "JSON Schema usage"), so
//! `$schema` is omitted. Subschemas are inlined, because many clients do not follow `$ref`; only
//! recursive types use it.
//!
//! If a schema requires no more than its type, deserialization with serde already checks
//! everything. Ranges, lengths and patterns that an author adds with attributes require more.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// The schema of values that deserialize into `T`.
pub fn derive_input_schema<T: JsonSchema>() -> Value {
    derive_schema::<T>(schema_settings().for_deserialize())
}

/// The schema of values that `T` serializes into.
pub fn derive_output_schema<T: JsonSchema>() -> Value {
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

/// Whether deserialization checks everything that `schema` requires. `schema` must be derived from
/// the type that is deserialized.
pub fn is_implied(schema: &Value) -> bool {
    match schema {
        Value::Bool(_) => true,
        Value::Object(schema) => is_object_implied(schema),
        _ => false,
    }
}

fn is_object_implied(schema: &Map<String, Value>) -> bool {
    schema.iter().all(|(keyword, value)| match keyword.as_str() {
        "$defs" | "properties" => value.as_object().is_some_and(|parts| {
            let mut parts = parts.values();
            parts.all(is_implied)
        }),
        "additionalProperties" | "items" => is_implied(value),
        "anyOf" | "oneOf" | "prefixItems" => {
            value.as_array().is_some_and(|parts| parts.iter().all(is_implied))
        }
        "$comment" | "$ref" | "$schema" | "const" | "default" | "deprecated" | "description"
        | "enum" | "examples" | "format" | "required" | "title" | "type" => true,
        "maxItems" | "minItems" => schema.contains_key("prefixItems"),
        "maximum" | "minimum" => is_bound_of_type(schema, keyword, value),
        _ => keyword.starts_with("x-"),
    })
}

/// Whether a bound is that of the integer type named by `format`.
fn is_bound_of_type(schema: &Map<String, Value>, keyword: &str, bound: &Value) -> bool {
    let Some(format) = schema.get("format").and_then(Value::as_str) else { return false };
    let known = INTEGER_BOUNDS.iter().find(|(name, ..)| *name == format);
    known.is_some_and(|(_, least, most)| match keyword {
        "minimum" => bound.as_i64() == Some(*least),
        _ => bound.as_i64().is_some() && bound.as_i64() == *most,
    })
}

/// Bounds that schemars writes for the formats of Rust's integers: minimum, and maximum if any.
const INTEGER_BOUNDS: [(&str, i64, Option<i64>); 8] = [
    ("int8", -128, Some(127)),
    ("int16", -32_768, Some(32_767)),
    ("uint", 0, None),
    ("uint8", 0, Some(255)),
    ("uint16", 0, Some(65_535)),
    ("uint32", 0, None),
    ("uint64", 0, None),
    ("uint128", 0, None),
];

#[cfg(test)]
mod tests {
    use schemars::{JsonSchema, schema_for};
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Plain {
        text: String,
        small: u8,
        signed: i16,
        large: Option<u64>,
        list: Vec<(i32, f32)>,
        choice: Choice,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Choice {
        One,
        Many { count: usize },
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Bounded {
        #[schemars(range(min = 1))]
        count: u32,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Shaped {
        #[schemars(length(max = 3))]
        text: String,
    }

    #[test]
    fn derived_schema_is_implied_by_its_type() {
        assert!(is_implied(schema_for!(Plain).as_value()), "{:?}", schema_for!(Plain));
    }

    #[test]
    fn schema_attributes_are_not_implied() {
        assert!(!is_implied(schema_for!(Bounded).as_value()));
        assert!(!is_implied(schema_for!(Shaped).as_value()));
    }
}
