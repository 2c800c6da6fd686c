//! JSON Schemas of tools: made from Rust types, fitted to what every revision accepts.
//!
//! What it keeps true: the schema of arguments says `"type": "object"` at its root, and each of its
//! properties is a schema object, never the bare `true` that JSON Schema 2020-12 allows and the
//! revisions up to 2025-11-25 do not. It does not validate values.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schema of arguments that deserialize into `T`.
pub(super) fn of_arguments<T: JsonSchema>() -> Value {
    of::<T>(settings().for_deserialize())
}

/// The schema of results that `T` serializes into.
pub(super) fn of_results<T: JsonSchema>() -> Value {
    of::<T>(settings().for_serialize())
}

/// Fits `schema` to be a tool's `inputSchema`; `Err` says what stands in the way.
pub(super) fn fit_arguments(schema: Value) -> Result<Value, &'static str> {
    let Value::Object(mut schema) = schema else {
        return Err("the schema of its arguments is not a JSON object");
    };
    match schema.get("type") {
        // A choice between objects (`oneOf`, `$ref`) may leave the type out; arguments always are
        // an object, so saying it excludes nothing.
        None => {
            schema.shift_insert(0, String::from("type"), json!("object"));
        }
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return Err("its arguments must be an object, and their schema says otherwise"),
    }
    fit_properties(&mut schema);
    Ok(Value::Object(schema))
}

/// Fits `schema` to be a tool's `outputSchema`; `Err` says what stands in the way.
pub(super) fn fit_results(schema: Value) -> Result<Value, &'static str> {
    let Value::Object(mut schema) = schema else {
        return Err("the schema of its results is not a JSON object");
    };
    fit_properties(&mut schema);
    Ok(Value::Object(schema))
}

/// Whether `schema` describes an object and nothing else, as revisions up to 2025-11-25 demand of
/// an `outputSchema`.
pub(super) fn is_of_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// JSON Schema 2020-12, the default dialect of MCP (2025-11-25, basic, "JSON Schema usage"), which
/// therefore need not be named in every schema. Parts are written where they are used, because
/// many hosts of models do not follow `$ref`; only recursive types still need it.
fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    })
}

fn of<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of a Rust type tells a model nothing; a title that its author wrote stays.
    if schema.get("title").and_then(Value::as_str) == Some(&*T::schema_name()) {
        schema.remove("title");
    }
    schema.to_value()
}

fn fit_properties(schema: &mut Map<String, Value>) {
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
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Deserialize, JsonSchema, Serialize)]
    struct Search {
        /// What to look for.
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
    fn a_struct_becomes_an_object_with_described_properties() {
        let schema = fit_arguments(of_arguments::<Search>()).unwrap();
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["properties"]["query"]["description"], "What to look for.");
        assert_eq!(schema["required"], json!(["query", "anything"]));
        assert_eq!(schema.get("title"), None, "the name of the Rust type is not shown");
        assert_eq!(schema.get("$schema"), None);
        assert_eq!(schema["properties"]["anything"], json!({}), "a bare `true` is spelled out");
    }

    #[test]
    fn a_choice_of_objects_is_an_object() {
        let schema = fit_arguments(of_arguments::<Shape>()).unwrap();
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["oneOf"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn arguments_that_are_no_object_are_refused() {
        assert!(fit_arguments(of_arguments::<String>()).is_err());
        assert!(fit_arguments(of_arguments::<Option<Search>>()).is_err());
        assert!(fit_arguments(json!(true)).is_err());
        assert!(fit_arguments(json!({ "type": ["object", "null"] })).is_err());
    }

    #[test]
    fn results_may_be_any_json() {
        let schema = fit_results(of_results::<Vec<u32>>()).unwrap();
        assert!(!is_of_object(&schema));
        assert!(is_of_object(&fit_results(of_results::<Search>()).unwrap()));
    }
}
