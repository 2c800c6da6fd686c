//! Whether a schema derived from a Rust type requires more than the type.
//!
//! If it does not, deserialization with serde already checks everything. Ranges, lengths and
//! patterns that an author adds with attributes require more.

use serde_json::{Map, Value};

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
