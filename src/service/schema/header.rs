//! `x-mcp-header`: arguments that HTTP clients repeat as `Mcp-Param-…` headers.
//!
//! What it keeps true: a tool of a catalog bears only annotations that clients accept, because a
//! client over HTTP drops a tool that breaks one of the rules. It reads no headers.
//!
//! Source: 2026-07-28, basic/transports, "x-mcp-header"; RFC 9110, section 5.6.2.

use serde_json::{Map, Value};

/// One argument that a client repeats as a header.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParameterHeader {
    /// What follows `Mcp-Param-` in the header's name, as the schema spells it.
    pub name: Box<str>,
    /// The way to the argument: keys of objects, outermost first.
    pub path: Box<[Box<str>]>,
}

/// The annotations of the schema of a tool's arguments; `Err` says what is wrong with one.
pub(in crate::service) fn read(schema: &Value) -> Result<Box<[ParameterHeader]>, String> {
    let mut found = Vec::new();
    walk(schema, Some(&mut Vec::new()), &mut found)?;
    Ok(found.into())
}

/// Looks at `schema` and every schema inside. `path` is the way to the value it describes, where
/// only `properties` lead to it.
fn walk<'s>(
    schema: &'s Value,
    mut path: Option<&mut Vec<&'s str>>,
    found: &mut Vec<ParameterHeader>,
) -> Result<(), String> {
    let schema = match schema {
        Value::Object(schema) => schema,
        Value::Array(schemas) => {
            return schemas.iter().try_for_each(|schema| walk(schema, None, found));
        }
        _ => return Ok(()),
    };
    if let Some(name) = schema.get(ANNOTATION) {
        found.push(accept(schema, name, path.as_deref(), found)?);
    }
    for (keyword, inner) in schema {
        match (keyword.as_str(), inner) {
            ("const" | "default" | "enum" | "examples", _) => {}
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    if let Some(path) = path.as_deref_mut() {
                        path.push(name);
                    }
                    walk(property, path.as_deref_mut(), found)?;
                    if let Some(path) = path.as_deref_mut() {
                        path.pop();
                    }
                }
            }
            ("$defs" | "definitions" | "dependentSchemas" | "patternProperties", inner) => {
                let schemas = inner.as_object().into_iter().flatten();
                for (_, schema) in schemas {
                    walk(schema, None, found)?;
                }
            }
            (_, inner) => walk(inner, None, found)?,
        }
    }
    Ok(())
}

/// Holds one annotation against the rules.
fn accept(
    schema: &Map<String, Value>,
    name: &Value,
    path: Option<&Vec<&str>>,
    found: &[ParameterHeader],
) -> Result<ParameterHeader, String> {
    let name = name.as_str().ok_or("an x-mcp-header is not a string")?;
    let refuse = |problem| Err(format!("its x-mcp-header `{name}` {problem}"));
    if name.is_empty() || !name.bytes().all(is_token) {
        return refuse("is not a token of HTTP: letters, digits and !#$%&'*+-.^_`|~");
    }
    if found.iter().any(|other| other.name.eq_ignore_ascii_case(name)) {
        return refuse("occurs twice; header names are unique without regard to case");
    }
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return refuse("is not reached through `properties` alone");
    };
    if !is_plain(schema.get("type")) {
        return refuse("must stand on a string, an integer or a boolean");
    }
    let bounds = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    let mut bounds = bounds.iter().filter_map(|key| schema.get(*key)?.as_f64());
    if !bounds.all(|bound| bound.abs() <= INTEGER_MAX) {
        return refuse("allows integers beyond 2^53 - 1, which JSON does not carry safely");
    }
    let path = path.iter().map(|key| Box::from(*key)).collect();
    Ok(ParameterHeader { name: name.into(), path })
}

/// Whether the type is one that a header can carry, or that or `null`.
fn is_plain(kind: Option<&Value>) -> bool {
    let carried = |kind: &Value| {
        kind.as_str().is_some_and(|kind| matches!(kind, "boolean" | "integer" | "string"))
    };
    match kind {
        Some(Value::Array(kinds)) => {
            let mut others = kinds.iter().filter(|kind| kind.as_str() != Some("null"));
            others.next().is_some_and(carried) && others.next().is_none()
        }
        Some(kind) => carried(kind),
        None => false,
    }
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.')
        || matches!(byte, b'^' | b'_' | b'`' | b'|' | b'~')
}

const ANNOTATION: &str = "x-mcp-header";

/// 2^53 - 1: beyond it two integers may be one double.
const INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(property: &Value) -> Result<Box<[ParameterHeader]>, String> {
        read(&json!({ "type": "object", "properties": { "a": property } }))
    }

    #[test]
    fn an_annotation_names_its_argument_however_deep() {
        let inner = json!({ "type": ["integer", "null"], "x-mcp-header": "Tenant-Id" });
        let found = of(&json!({ "type": "object", "properties": { "b": inner } })).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(&*found[0].name, "Tenant-Id");
        assert_eq!(found[0].path.join("/"), "a/b");
    }

    #[test]
    fn what_clients_would_drop_is_refused() {
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
            assert!(of(&property).is_err(), "{property}");
        }
        assert!(read(&json!({ "type": "object", "x-mcp-header": "a" })).is_err());
    }

    #[test]
    fn names_are_unique_without_regard_to_case() {
        let schema = json!({ "properties": {
            "a": { "type": "string", "x-mcp-header": "Region" },
            "b": { "type": "string", "x-mcp-header": "region" },
        } });
        assert!(read(&schema).unwrap_err().contains("twice"));
    }

    #[test]
    fn data_that_looks_like_an_annotation_is_none() {
        let property = json!({ "type": "object", "default": { "x-mcp-header": "" } });
        assert_eq!(of(&property), Ok([].into()));
        let named = json!({ "properties": { "x-mcp-header": { "type": "number" } } });
        assert_eq!(read(&named), Ok([].into()));
    }
}
