//! The arguments that a tool declares in its input schema.

use serde_json::Value;

/// References followed in one schema.
const REFERENCES_MAX: usize = 8;

/// An argument of a tool or prompt.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Argument {
    pub(crate) name: String,
    /// Its type for people: `string`, `number[]`, `"a"|"b"`.
    pub(crate) type_name: String,
    pub(crate) is_required: bool,
    pub(crate) description: String,
    /// The schema of its value, or `null`.
    schema: Value,
}

impl Argument {
    /// An argument of a prompt, which is a string.
    pub(crate) fn text(name: &str, is_required: bool, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            type_name: "string".to_owned(),
            is_required,
            description: description.to_owned(),
            schema: serde_json::json!({ "type": "string" }),
        }
    }

    /// Returns whether its value can only be a string.
    pub(crate) fn is_text(&self) -> bool {
        let types = types(&self.schema);
        types.contains(&"string") && types.iter().all(|name| matches!(*name, "string" | "null"))
    }

    /// Returns whether `value` is one of the values of the schema, or has one of its types, as far
    /// as it names any.
    pub(crate) fn accepts(&self, value: &Value) -> bool {
        if let Some(values) = self.schema["enum"].as_array() {
            return values.contains(value);
        }
        let types = types(&self.schema);
        types.is_empty() || types.iter().any(|name| has_type(value, name))
    }
}

/// Reads the properties of an input schema.
pub(crate) fn arguments_of(schema: &Value) -> Vec<Argument> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
    let argument = |(name, property): (&String, &Value)| {
        let resolved = resolve(property, schema);
        let description =
            [property, resolved].into_iter().find_map(|it| it["description"].as_str());
        Argument {
            name: name.clone(),
            type_name: type_name(resolved, schema, REFERENCES_MAX),
            is_required: is_required(name),
            description: description.unwrap_or_default().to_owned(),
            schema: resolved.clone(),
        }
    };
    properties.into_iter().flatten().map(argument).collect()
}

/// Follows references inside the document `root`; others are never fetched.
fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..REFERENCES_MAX {
        let pointer =
            schema.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix('#'));
        let Some(next) = pointer.and_then(|pointer| root.pointer(pointer)) else { break };
        schema = next;
    }
    schema
}

/// Returns the names in `type`, or those that its enumeration or alternatives imply.
fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(name) => return vec![name],
        Value::Array(names) => return names.iter().filter_map(Value::as_str).collect(),
        _ => {}
    }
    let values = schema["enum"].as_array().map(Vec::as_slice).or_else(|| {
        let constant = schema.get("const")?;
        Some(std::slice::from_ref(constant))
    });
    if let Some(values) = values {
        return values.iter().map(type_of).collect();
    }
    let alternatives = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
    let mut names = Vec::new();
    for alternative in alternatives.into_iter().flatten() {
        let found = types(alternative);
        if found.is_empty() {
            return Vec::new();
        }
        names.extend(found);
    }
    names
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0)
        }
        // An unknown type is the server's to check.
        "null" | "boolean" | "number" | "string" | "array" | "object" => type_of(value) == name,
        _ => true,
    }
}

/// Returns the type of a value for people.
fn type_name(schema: &Value, root: &Value, depth: usize) -> String {
    let Some(depth) = depth.checked_sub(1) else { return "any".to_owned() };
    let schema = resolve(schema, root);
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join("|");
    }
    if let Some(constant) = schema.get("const") {
        return constant.to_string();
    }
    let one = |name: &str| match (name, schema.get("items")) {
        ("array", Some(items)) => {
            let item = type_name(items, root, depth);
            if item.contains('|') { format!("({item})[]") } else { format!("{item}[]") }
        }
        _ => name.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => return one(name),
        Value::Array(names) => {
            return names.iter().filter_map(Value::as_str).map(one).collect::<Vec<_>>().join("|");
        }
        _ => {}
    }
    let alternatives = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
    match alternatives {
        Some(alternatives) => {
            let mut names: Vec<String> =
                alternatives.iter().map(|it| type_name(it, root, depth)).collect();
            names.dedup();
            names.join("|")
        }
        None => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn type_of_property_is_named() {
        let root = json!({
            "$defs": { "Level": { "enum": ["low", "high"], "description": "How loud." } },
            "properties": {
                "plain": { "type": "string", "description": "Text." },
                "nullable": { "type": ["integer", "null"] },
                "list": { "type": "array", "items": { "type": ["string", "number"] } },
                "level": { "$ref": "#/$defs/Level" },
                "either": { "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/Level" }] },
                "remote": { "$ref": "https://example.com/schema" },
                "free": {},
            },
            "required": ["plain"],
        });
        let arguments = arguments_of(&root);
        let names: Vec<&str> = arguments.iter().map(|it| it.type_name.as_str()).collect();
        let list = "(string|number)[]";
        let expected = [
            "string",
            "integer|null",
            list,
            r#""low"|"high""#,
            r#"string|"low"|"high""#,
            "any",
            "any",
        ];
        assert_eq!(names, expected);
        assert!(arguments[0].is_required && !arguments[1].is_required);
        assert_eq!(arguments[3].description, "How loud.");
    }

    #[test]
    fn reference_to_itself_ends() {
        let root = json!({
            "properties": {
                "a": { "$ref": "#/properties/a" },
                "b": { "type": "array", "items": { "$ref": "#/properties/b" } },
            },
        });
        assert_eq!(arguments_of(&root)[0].type_name, "any");
        assert!(arguments_of(&root)[1].type_name.ends_with("[][]"));
    }

    #[test]
    fn value_of_another_type_is_refused() {
        let schema = json!({ "properties": {
            "text": { "type": "string" },
            "count": { "type": "integer" },
            "choice": { "enum": ["a", "b"] },
            "free": {},
        }});
        let [text, count, choice, free] = &arguments_of(&schema)[..] else { panic!("four") };
        assert!(text.is_text() && choice.is_text() && !count.is_text() && !free.is_text());
        assert!(text.accepts(&json!("a")) && !text.accepts(&json!(1)));
        assert!(count.accepts(&json!(2.0)) && !count.accepts(&json!(2.5)));
        assert!(choice.accepts(&json!("a")) && !choice.accepts(&json!("c")));
        assert!(free.accepts(&json!([])));
    }
}
