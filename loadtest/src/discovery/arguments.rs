//! Arguments that satisfy the schema of a tool.
//!
//! A value is taken from `const`, `default`, `examples`, `enum` or a minimum, in this order. A text
//! or a number without any of these means something that only its server knows, so that a tool that
//! requires one cannot be called, except a text for a tool that returns it. A sample of arguments
//! has a placeholder there.

use serde_json::{Map, Number, Value};

/// Levels of nested schemas that are followed; a deeper one may contain itself.
const DEPTH_MAX: usize = 16;

/// Makes arguments for one schema.
#[derive(Debug)]
pub(super) struct ArgumentMaker<'a> {
    root: &'a Value,
    /// Text for members without a value in the schema.
    text: Option<&'a str>,
    /// Whether values that only the server knows have a placeholder.
    is_sample: bool,
}

/// Placeholder of a text.
const SAMPLE_TEXT: &str = "TEXT";

impl<'a> ArgumentMaker<'a> {
    /// Creates the maker for `schema`. With `text`, members that are a text of any content have it.
    pub(super) const fn new(schema: &'a Value, text: Option<&'a str>) -> Self {
        Self { root: schema, text, is_sample: false }
    }

    /// Returns arguments with placeholders, for people to fill in.
    pub(super) fn sample(schema: &Value) -> Value {
        let maker = ArgumentMaker { root: schema, text: None, is_sample: true };
        maker.value(schema, 0).unwrap_or_else(|_| Value::Object(Map::new()))
    }

    /// Returns arguments that the schema accepts.
    ///
    /// # Errors
    ///
    /// Returns why there are none, as a part of a sentence about the tool.
    pub(super) fn make(&self) -> Result<Map<String, Value>, String> {
        let no_schema = self.root.is_null() || *self.root == Value::Bool(true);
        let value = if no_schema { Value::Object(Map::new()) } else { self.value(self.root, 0)? };
        let Value::Object(arguments) = value else {
            return Err("its arguments are not an object".into());
        };
        if no_schema {
            return Ok(arguments);
        }
        let value = Value::Object(arguments);
        let valid = jsonschema::validator_for(self.root)
            .map_err(|error| format!("its schema is invalid: {error}"))
            .and_then(|schema| schema.validate(&value).map_err(|error| format!("needs {error}")));
        valid?;
        match value {
            Value::Object(arguments) => Ok(arguments),
            _ => Ok(Map::new()),
        }
    }

    fn value(&self, schema: &Value, depth: usize) -> Result<Value, String> {
        let Value::Object(schema) = schema else { return Ok(Value::Object(Map::new())) };
        if depth > DEPTH_MAX {
            return Err("its schema is nested too deeply".into());
        }
        for name in ["const", "default"] {
            if let Some(value) = schema.get(name) {
                return Ok(value.clone());
            }
        }
        for name in ["examples", "enum"] {
            if let Some(value) = schema.get(name).and_then(|values| values.get(0)) {
                return Ok(value.clone());
            }
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let pointer = reference.strip_prefix('#').and_then(|path| self.root.pointer(path));
            let schema = pointer.ok_or_else(|| format!("cannot resolve '{reference}'"))?;
            return self.value(schema, depth + 1);
        }
        for name in ["anyOf", "oneOf"] {
            if let Some(Value::Array(schemas)) = schema.get(name) {
                let values = schemas.iter().map(|schema| self.value(schema, depth + 1));
                return first_value(values);
            }
        }
        self.typed_value(schema, depth)
    }

    fn typed_value(&self, schema: &Map<String, Value>, depth: usize) -> Result<Value, String> {
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
            Some(kind) => kind.as_str(),
            None if schema.contains_key("properties") || depth == 0 => Some("object"),
            None => None,
        };
        match kind {
            Some("object") => self.object(schema, depth),
            Some("array") => self.array(schema, depth),
            Some("string") => self.string(schema),
            Some("boolean") => Ok(Value::Bool(false)),
            Some("null") => Ok(Value::Null),
            Some(kind @ ("integer" | "number")) => match number(schema, kind) {
                Err(_) if self.is_sample => Ok(Value::from(1)),
                number => number,
            },
            _ if self.is_sample => Ok(Value::from(SAMPLE_TEXT)),
            _ => Err("a value of any kind".into()),
        }
    }

    fn object(&self, schema: &Map<String, Value>, depth: usize) -> Result<Value, String> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        let mut names: Vec<&str> = required.collect();
        // A text to return may be optional.
        if depth == 0
            && names.is_empty()
            && self.text.is_some()
            && let Some(properties) = properties
        {
            let is_text = |(_, schema): &(&String, &Value)| schema["type"] == "string";
            names.extend(properties.iter().find(is_text).map(|(name, _)| name.as_str()));
        }
        let mut members = Map::new();
        for name in names {
            let schema = properties.and_then(|properties| properties.get(name));
            let value = self.value(schema.unwrap_or(&Value::Null), depth + 1);
            members.insert(name.into(), value.map_err(|why| format!("'{name}': {why}"))?);
        }
        Ok(Value::Object(members))
    }

    fn array(&self, schema: &Map<String, Value>, depth: usize) -> Result<Value, String> {
        let count = schema.get("minItems").and_then(Value::as_u64).unwrap_or_default();
        let items = schema.get("items").unwrap_or(&Value::Null);
        let items = (0..count).map(|_| self.value(items, depth + 1)).collect::<Result<_, _>>()?;
        Ok(Value::Array(items))
    }

    fn string(&self, schema: &Map<String, Value>) -> Result<Value, String> {
        let of_any_content = !schema.contains_key("format") && !schema.contains_key("pattern");
        let Some(text) = self.text.filter(|_| of_any_content) else {
            if self.is_sample {
                return Ok(Value::from(SAMPLE_TEXT));
            }
            return Err("a text without default, example or enum".into());
        };
        let length = |name| schema.get(name).and_then(Value::as_u64);
        let length = |name| length(name).and_then(|length| usize::try_from(length).ok());
        let count = text.chars().count();
        let count = count.min(length("maxLength").unwrap_or(count));
        let count = count.max(length("minLength").unwrap_or_default());
        Ok(Value::from(text.chars().cycle().take(count).collect::<String>()))
    }
}

/// Returns the first value, or the last error.
fn first_value(values: impl Iterator<Item = Result<Value, String>>) -> Result<Value, String> {
    let mut last = Err("no alternative".into());
    for value in values {
        if value.is_ok() {
            return value;
        }
        last = value;
    }
    last
}

/// Returns the least number that a schema with a minimum accepts.
fn number(schema: &Map<String, Value>, kind: &str) -> Result<Value, String> {
    if let Some(minimum @ Value::Number(_)) = schema.get("minimum") {
        return Ok(minimum.clone());
    }
    let step = schema.get("multipleOf").and_then(Value::as_f64).unwrap_or(1.0);
    if let Some(bound) = schema.get("exclusiveMinimum").and_then(Value::as_f64) {
        let next = (bound / step).floor() * step + step;
        #[expect(clippy::cast_possible_truncation, reason = "the validator checks the value")]
        let number = if kind == "integer" {
            Some(Number::from(next as i64))
        } else {
            Number::from_f64(next)
        };
        return Ok(number.map_or(Value::Null, Value::Number));
    }
    Err("a number without default, example, enum or minimum".into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(schema: &Value) -> Result<Value, String> {
        ArgumentMaker::new(schema, None).make().map(Value::Object)
    }

    #[test]
    fn required_arguments_come_from_schema() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": { "type": "string", "default": "x" },
                "b": { "type": "integer", "examples": [7, 8] },
                "c": { "enum": ["red", "green"] },
                "d": { "const": 3 },
                "e": { "type": "number", "minimum": 0.5 },
                "f": { "type": "integer", "exclusiveMinimum": 4 },
                "g": { "type": "boolean" },
                "h": { "type": "array", "items": { "$ref": "#/$defs/h" }, "minItems": 2 },
                "i": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
                "unused": { "type": "string" },
            },
            "$defs": { "h": { "type": "object", "required": ["x"],
                "properties": { "x": { "type": ["null", "string"] } } } },
            "required": ["a", "b", "c", "d", "e", "f", "g", "h", "i"],
            "additionalProperties": false,
        });
        let expected = json!({ "a": "x", "b": 7, "c": "red", "d": 3, "e": 0.5, "f": 5, "g": false,
            "h": [{ "x": null }, { "x": null }], "i": null });
        assert_eq!(made(&schema), Ok(expected));
        assert_eq!(made(&json!({})), Ok(json!({})));
        assert_eq!(made(&Value::Null), Ok(json!({})));
    }

    #[test]
    fn unsatisfiable_argument_is_named() {
        for (schema, part) in [
            (json!({ "type": "string" }), "'a': a text without"),
            (json!({ "type": "integer", "maximum": 3 }), "'a': a number without"),
            (json!({}), "'a': a value of any kind"),
            (json!({ "type": "integer", "default": "x" }), "needs"),
            (json!({ "$ref": "#" }), "nested too deeply"),
            (json!({ "$ref": "https://example.org/x" }), "cannot resolve"),
        ] {
            let schema = json!({ "type": "object", "properties": { "a": schema },
                "required": ["a"] });
            let error = made(&schema).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn echo_text_respects_length_limits() {
        let made = |schema: Value| {
            let schema = json!({ "type": "object", "properties": { "a": schema } });
            ArgumentMaker::new(&schema, Some("abcd")).make().map(|made| made["a"].clone())
        };
        assert_eq!(made(json!({ "type": "string" })), Ok(json!("abcd")));
        assert_eq!(made(json!({ "type": "string", "maxLength": 2 })), Ok(json!("ab")));
        assert_eq!(made(json!({ "type": "string", "minLength": 6 })), Ok(json!("abcdab")));
        assert!(made(json!({ "type": "string", "format": "uri" })).is_err());
    }
}
