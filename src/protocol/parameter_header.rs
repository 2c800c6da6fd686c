//! `x-mcp-header` annotations: arguments that clients repeat as `Mcp-Param-…` HTTP headers.
//!
//! A server rejects invalid annotations when the tool enters a catalog, because clients drop tools
//! with invalid ones.
//!
//! Source: MCP 2026-07-28, basic/transports, "x-mcp-header"; RFC 9110, section 5.6.2.

use serde_json::{Map, Value};

/// An argument that clients repeat as an HTTP header.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParameterHeader {
    /// Header name without the prefix `Mcp-Param-`, as spelled in the schema.
    pub name: Box<str>,
    /// Path to the argument: object keys, outermost first.
    pub path: Box<[Box<str>]>,
}

/// Collects the annotations of an input schema; `Err` is phrased to follow "tool `name`: ".
///
/// # Errors
///
/// What is wrong with the first invalid annotation.
pub fn collect_headers(schema: &Value) -> Result<Box<[ParameterHeader]>, String> {
    let mut found = Vec::new();
    collect_from(schema, Some(&mut Vec::new()), &mut found)?;
    Ok(found.into())
}

/// Collects the annotations of `schema` and its subschemas. `path` leads to the described value, or
/// is `None` if a keyword other than `properties` is on the way.
fn collect_from<'s>(
    schema: &'s Value,
    mut path: Option<&mut Vec<&'s str>>,
    found: &mut Vec<ParameterHeader>,
) -> Result<(), String> {
    let schema = match schema {
        Value::Object(schema) => schema,
        Value::Array(schemas) => {
            return schemas.iter().try_for_each(|schema| collect_from(schema, None, found));
        }
        _ => return Ok(()),
    };
    if let Some(name) = schema.get(ANNOTATION) {
        found.push(check_annotation(schema, name, path.as_deref(), found)?);
    }
    for (keyword, inner) in schema {
        match (keyword.as_str(), inner) {
            ("const" | "default" | "enum" | "examples", _) => {}
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    if let Some(path) = path.as_deref_mut() {
                        path.push(name);
                    }
                    collect_from(property, path.as_deref_mut(), found)?;
                    if let Some(path) = path.as_deref_mut() {
                        path.pop();
                    }
                }
            }
            ("$defs" | "definitions" | "dependentSchemas" | "patternProperties", inner) => {
                let schemas = inner.as_object().into_iter().flatten();
                for (_, schema) in schemas {
                    collect_from(schema, None, found)?;
                }
            }
            (_, inner) => collect_from(inner, None, found)?,
        }
    }
    Ok(())
}

/// Validates one annotation.
fn check_annotation(
    schema: &Map<String, Value>,
    name: &Value,
    path: Option<&Vec<&str>>,
    found: &[ParameterHeader],
) -> Result<ParameterHeader, String> {
    let name = name.as_str().ok_or("an x-mcp-header is not a string")?;
    let invalid = |problem| Err(format!("x-mcp-header `{name}` {problem}"));
    if name.is_empty() || !name.bytes().all(is_token) {
        return invalid("is not an HTTP token: letters, digits and !#$%&'*+-.^_`|~");
    }
    if found.iter().any(|other| other.name.eq_ignore_ascii_case(name)) {
        return invalid("occurs twice; header names are unique ignoring case");
    }
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return invalid("must be reachable through `properties` only");
    };
    if !is_header_type(schema.get("type")) {
        return invalid("must annotate a string, an integer or a boolean");
    }
    let bounds = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    let mut bounds = bounds.iter().filter_map(|key| schema.get(*key)?.as_f64());
    if !bounds.all(|bound| bound.abs() <= INTEGER_MAX) {
        return invalid("allows integers beyond 2^53 - 1, which JSON does not represent exactly");
    }
    let path = path.iter().map(|key| Box::from(*key)).collect();
    Ok(ParameterHeader { name: name.into(), path })
}

/// Whether a header can represent the type, or the type is a union of such a type and `null`.
fn is_header_type(kind: Option<&Value>) -> bool {
    let is_scalar = |kind: &Value| {
        kind.as_str().is_some_and(|kind| matches!(kind, "boolean" | "integer" | "string"))
    };
    match kind {
        Some(Value::Array(kinds)) => {
            let mut others = kinds.iter().filter(|kind| kind.as_str() != Some("null"));
            others.next().is_some_and(is_scalar) && others.next().is_none()
        }
        Some(kind) => is_scalar(kind),
        None => false,
    }
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.')
        || matches!(byte, b'^' | b'_' | b'`' | b'|' | b'~')
}

const ANNOTATION: &str = "x-mcp-header";

/// 2^53 - 1, the largest integer that a double distinguishes from its neighbours.
const INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers_of_property(property: &Value) -> Result<Box<[ParameterHeader]>, String> {
        collect_headers(&json!({ "type": "object", "properties": { "a": property } }))
    }

    #[test]
    fn nested_header_annotation_has_full_path() {
        let inner = json!({ "type": ["integer", "null"], "x-mcp-header": "Tenant-Id" });
        let found = headers_of_property(&json!({ "type": "object", "properties": { "b": inner } }))
            .unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(&*found[0].name, "Tenant-Id");
        assert_eq!(found[0].path.join("/"), "a/b");
    }

    #[test]
    fn invalid_header_annotation_is_rejected() {
        for property in [
            json!({ "type": "string", "x-mcp-header": "" }),
            json!({ "type": "string", "x-mcp-header": 7 }),
            json!({ "type": "string", "x-mcp-header": "two words" }),
            json!({ "type": "string", "x-mcp-header": "line\n" }),
            json!({ "type": "string", "x-mcp-header": "colon:" }),
            json!({ "type": "number", "x-mcp-header": "a" }),
            json!({ "type": "object", "x-mcp-header": "a" }),
            json!({ "x-mcp-header": "a" }),
            json!({ "type": ["string", "integer"], "x-mcp-header": "a" }),
            json!({ "type": "integer", "maximum": 1e16, "x-mcp-header": "a" }),
            json!({ "items": { "type": "string", "x-mcp-header": "a" } }),
            json!({ "oneOf": [{ "type": "string", "x-mcp-header": "a" }] }),
            json!({ "if": { "properties": { "b": { "type": "string", "x-mcp-header": "a" } } } }),
            json!({ "$defs": { "b": { "type": "string", "x-mcp-header": "a" } } }),
        ] {
            assert!(headers_of_property(&property).is_err(), "{property}");
        }
        assert!(collect_headers(&json!({ "type": "object", "x-mcp-header": "a" })).is_err());
    }

    #[test]
    fn duplicate_header_name_is_rejected_ignoring_case() {
        let schema = json!({ "properties": {
            "a": { "type": "string", "x-mcp-header": "Region" },
            "b": { "type": "string", "x-mcp-header": "region" },
        } });
        assert!(collect_headers(&schema).unwrap_err().contains("twice"));
    }

    #[test]
    fn header_annotation_in_data_is_ignored() {
        let property = json!({ "type": "object", "default": { "x-mcp-header": "" } });
        assert_eq!(headers_of_property(&property), Ok([].into()));
        let named = json!({ "properties": { "x-mcp-header": { "type": "number" } } });
        assert_eq!(collect_headers(&named), Ok([].into()));
    }
}
