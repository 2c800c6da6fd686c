//! JSON Schemas of tools, adapted to what every revision accepts.
//!
//! An input schema has `"type": "object"` at its root, and each property is a schema object: JSON
//! Schema 2020-12 allows a bare `true`, but MCP revisions up to 2025-11-25 do not.

use serde_json::{Map, Value, json};

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

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::service::derived_schema::{derive_input_schema, derive_output_schema};

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
