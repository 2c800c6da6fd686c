//! Arguments of tools and prompts on the command line, `key=value`, `key:=JSON` or a JSON object,
//! and those that a tool declares in its input schema.

use std::fs;
use std::io::{self, Read};

use serde_json::{Map, Value};

use crate::config::unit::nearest;

/// Longest JSON object that is read from a file or standard input.
const OBJECT_BYTES_MAX: u64 = 16 << 20;

/// One `key=value` or `key:=JSON`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pair {
    pub(crate) key: String,
    pub(crate) value: PairValue,
}

/// The value of a [`Pair`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PairValue {
    /// Text, or JSON if the argument takes it.
    Text(String),
    /// JSON by `:=`.
    Json(Value),
}

impl Pair {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("write key=value, or key:=JSON")?;
        let (key, value) = match key.strip_suffix(':') {
            Some(key) => {
                let value = serde_json::from_str(value)
                    .map_err(|error| format!("the value is not JSON: {error}"))?;
                (key, PairValue::Json(value))
            }
            None => (key, PairValue::Text(value.to_owned())),
        };
        match key {
            "" => Err("the key is empty; write key=value, or key:=JSON".to_owned()),
            key => Ok(Self { key: key.to_owned(), value }),
        }
    }
}

/// Arguments as they were given.
#[derive(Clone, Debug)]
pub(crate) enum GivenArguments {
    Pairs(Vec<Pair>),
    Object(Map<String, Value>),
}

impl GivenArguments {
    /// Takes pairs with different keys.
    pub(crate) fn from_pairs(pairs: Vec<Pair>) -> Result<Self, String> {
        for (index, pair) in pairs.iter().enumerate() {
            if pairs[..index].iter().any(|earlier| earlier.key == pair.key) {
                return Err(format!("the argument {} is given twice", pair.key));
            }
        }
        Ok(Self::Pairs(pairs))
    }

    /// Reads a JSON object from `text`, from a file (`@FILE`) or from standard input (`-`).
    pub(crate) fn read_object(text: &str) -> Result<Self, String> {
        let read = |source: &str, input: &mut dyn Read| {
            let mut text = String::new();
            match input.take(OBJECT_BYTES_MAX + 1).read_to_string(&mut text) {
                Ok(_) if text.len() as u64 > OBJECT_BYTES_MAX => {
                    Err(format!("{source} is longer than {OBJECT_BYTES_MAX} bytes"))
                }
                Ok(_) => Ok(text),
                Err(error) => Err(format!("{source} cannot be read: {error}")),
            }
        };
        let text = match (text, text.strip_prefix('@')) {
            ("-", _) => read("standard input", &mut io::stdin().lock())?,
            (_, Some(path)) => match fs::File::open(path) {
                Ok(mut file) => read(path, &mut file)?,
                Err(error) => return Err(format!("{path} cannot be read: {error}")),
            },
            _ => text.to_owned(),
        };
        match serde_json::from_str(&text) {
            Ok(Value::Object(object)) => Ok(Self::Object(object)),
            Ok(_) => Err("the arguments are not a JSON object; write {\"key\": …}".to_owned()),
            Err(error) => Err(format!("the arguments are not JSON: {error}")),
        }
    }

    /// Returns whether the types that the server declares make a difference.
    pub(crate) fn depend_on_types(&self) -> bool {
        match self {
            Self::Object(_) => false,
            Self::Pairs(pairs) => pairs.iter().any(|pair| match &pair.value {
                PairValue::Text(text) => serde_json::from_str::<Value>(text).is_ok(),
                PairValue::Json(_) => false,
            }),
        }
    }

    /// Returns the object to send. A text is JSON if it parses as such, unless its argument can
    /// only be a string.
    pub(crate) fn to_object(&self, declared: &[Argument]) -> Map<String, Value> {
        let pairs = match self {
            Self::Object(object) => return object.clone(),
            Self::Pairs(pairs) => pairs,
        };
        let value = |pair: &Pair| match &pair.value {
            PairValue::Json(value) => value.clone(),
            PairValue::Text(text) => {
                let declared = declared.iter().find(|argument| argument.name == pair.key);
                match serde_json::from_str(text) {
                    Ok(value) if !declared.is_some_and(Argument::is_text) => value,
                    _ => Value::String(text.clone()),
                }
            }
        };
        pairs.iter().map(|pair| (pair.key.clone(), value(pair))).collect()
    }

    /// Returns the object of strings that a prompt takes.
    pub(crate) fn to_texts(&self) -> Map<String, Value> {
        let pairs = match self {
            Self::Object(object) => return object.clone(),
            Self::Pairs(pairs) => pairs,
        };
        let text = |pair: &Pair| match &pair.value {
            PairValue::Text(text) => Value::String(text.clone()),
            PairValue::Json(value) => value.clone(),
        };
        pairs.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
    }
}

/// Returns what is wrong with `given` as far as the names and types of `declared` show it.
pub(crate) fn find_mistakes(declared: &[Argument], given: &Map<String, Value>) -> Vec<String> {
    let missing = declared.iter().filter(|it| it.is_required && !given.contains_key(&it.name));
    let mut mistakes: Vec<String> =
        missing.map(|argument| format!("the argument {} is missing", argument.name)).collect();
    for (name, value) in given {
        match declared.iter().find(|argument| argument.name == *name) {
            Some(argument) if !argument.accepts(value) => {
                let type_name = &argument.type_name;
                mistakes.push(format!("the argument {name} must be {type_name}, not {value}"));
            }
            Some(_) => {}
            None => {
                let names = declared.iter().map(|argument| argument.name.as_str());
                let suggestion = nearest(name, names).map(|near| format!(", did you mean {near}?"));
                let suggestion = suggestion.unwrap_or_default();
                mistakes.push(format!("it has no argument {name}{suggestion}"));
            }
        }
    }
    mistakes
}

/// Returns the arguments of `name` for people.
pub(crate) fn describe(name: &str, declared: &[Argument]) -> String {
    if declared.is_empty() {
        return format!("{name} takes no arguments");
    }
    let describe = |argument: &Argument| {
        let required = if argument.is_required { ", required" } else { "" };
        format!("{} ({}{required})", argument.name, argument.type_name)
    };
    let arguments: Vec<String> = declared.iter().map(describe).collect();
    format!("{name} takes {}", arguments.join(", "))
}

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

    fn pairs(texts: &[&str]) -> GivenArguments {
        let pairs = texts.iter().map(|text| Pair::parse(text).unwrap());
        GivenArguments::from_pairs(pairs.collect()).unwrap()
    }

    fn declared() -> Vec<Argument> {
        arguments_of(&json!({
            "properties": { "text": { "type": "string" }, "count": { "type": "integer" } },
            "required": ["text"],
        }))
    }

    #[test]
    fn values_follow_declared_types() {
        let given = pairs(&["text=1", "count=2", "free=[3]", "other=a=b", "json:=\"4\"", "none="]);
        assert!(given.depend_on_types());
        let expected = json!({
            "text": "1", "count": 2, "free": [3], "other": "a=b", "json": "4", "none": "",
        });
        assert_eq!(Value::Object(given.to_object(&declared())), expected);
        assert_eq!(given.to_texts()["count"], "2");
        assert!(!pairs(&["text=a", "json:=1"]).depend_on_types());
    }

    #[test]
    fn invalid_pairs_and_objects_are_refused() {
        for (text, reason) in [("a", "key=value"), ("=1", "key is empty"), ("a:={", "not JSON")] {
            assert!(Pair::parse(text).unwrap_err().contains(reason), "{text}");
        }
        let twice = vec![Pair::parse("a=1").unwrap(), Pair::parse("a=2").unwrap()];
        assert!(GivenArguments::from_pairs(twice).unwrap_err().contains("twice"));
        for (text, reason) in
            [("[1]", "JSON object"), ("{", "not JSON"), ("@/no/such/file", "/no/such/file")]
        {
            assert!(GivenArguments::read_object(text).unwrap_err().contains(reason), "{text}");
        }
    }

    #[test]
    fn mistakes_name_the_arguments() {
        let given = json!({ "count": "two", "txet": "a" });
        let mistakes = find_mistakes(&declared(), given.as_object().unwrap());
        let expected = [
            "the argument text is missing",
            r#"the argument count must be integer, not "two""#,
            "it has no argument txet, did you mean text?",
        ];
        assert_eq!(mistakes, expected);
        assert!(find_mistakes(&declared(), json!({ "text": "a" }).as_object().unwrap()).is_empty());
        assert_eq!(describe("t", &declared()), "t takes text (string, required), count (integer)");
    }

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
