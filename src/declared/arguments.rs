//! The arguments of a declaration: a JSON Schema, and what the schema does not say.
//!
//! ```toml
//! [tool.arguments.path]
//! type = "string"
//! description = "Folder to measure."
//! within = "/srv/data"
//!
//! [tool.arguments.depth]
//! type = "integer"
//! minimum = 1
//! required = false
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::declared::problem::Problem;
use crate::server::options::unit::nearest;

/// Arguments by name: each a JSON Schema with three keys more.
pub type ArgumentTables = Map<String, Value>;

/// Where the values of an argument come from.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(untagged)]
pub enum CompleteDeclaration {
    /// These values.
    Values(Vec<String>),
    /// The result of a tool without arguments: a list of texts as JSON, or lines of text.
    Tool {
        /// Name of the tool, which is declared in the same files.
        tool: String,
    },
}

/// What an argument has beside its JSON Schema.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(default)]
pub struct ArgumentRules {
    /// Whether a call must have the argument. Default: `true`, unless it has a `default`.
    pub required: Option<bool>,
    /// Accept values that begin with `-` where a command could read them as an option. Default
    /// `false`.
    pub dash: bool,
    /// The value is a path, which must be in this folder; links that lead out of it are refused.
    pub within: Option<PathBuf>,
    /// Where completions come from, for prompts and resource templates.
    pub complete: Option<CompleteDeclaration>,
}

/// The arguments of a declaration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arguments {
    schema: Value,
    rules: BTreeMap<String, ArgumentRules>,
}

/// Keys of an argument that are none of JSON Schema.
const OWN_KEYS: [&str; 4] = ["required", "dash", "within", "complete"];

/// Keywords of JSON Schema 2020-12 that an argument may have.
const KEYWORDS: [&str; 39] = [
    "type",
    "title",
    "description",
    "default",
    "examples",
    "enum",
    "const",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "items",
    "prefixItems",
    "contains",
    "minContains",
    "maxContains",
    "minItems",
    "maxItems",
    "uniqueItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "deprecated",
    "readOnly",
    "writeOnly",
    "x-mcp-header",
];

impl Arguments {
    /// Arguments from the tables of a declaration.
    ///
    /// # Errors
    ///
    /// An argument is no table, or has a key that JSON Schema does not define.
    pub fn from_tables(tables: &ArgumentTables) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut rules = BTreeMap::new();
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (name, table) in tables {
            match read_argument(name, table) {
                Ok((schema, own)) => {
                    if own.required.unwrap_or_else(|| !schema.contains_key("default")) {
                        required.push(Value::from(name.as_str()));
                    }
                    properties.insert(name.clone(), Value::Object(schema));
                    rules.insert(name.clone(), own);
                }
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut schema = json!({ "type": "object", "properties": properties });
        if !required.is_empty() {
            schema["required"] = Value::Array(required);
        }
        schema["additionalProperties"] = Value::Bool(false);
        Ok(Self { schema, rules })
    }

    /// Arguments from a JSON Schema of an object.
    ///
    /// # Errors
    ///
    /// It is no schema of an object.
    pub fn from_schema(schema: Value) -> Result<Self, Vec<Problem>> {
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or("object");
        if !schema.is_object() || kind != "object" {
            let hint = "arguments are an object: write {\"type\": \"object\", \"properties\": …}";
            return Err(vec![Problem::new("schema", "is not the schema of an object", hint)]);
        }
        Ok(Self { schema, rules: BTreeMap::new() })
    }

    /// The JSON Schema of all arguments.
    pub const fn schema(&self) -> &Value {
        &self.schema
    }

    /// Names of the arguments that the schema lists.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let properties = self.schema.get("properties").and_then(Value::as_object);
        properties.into_iter().flat_map(|it| it.keys().map(String::as_str))
    }

    /// The schema of one argument, if it is listed.
    pub fn property(&self, name: &str) -> Option<&Value> {
        self.schema.get("properties")?.get(name)
    }

    /// Whether a call must have the argument.
    pub fn is_required(&self, name: &str) -> bool {
        let required = self.schema.get("required").and_then(Value::as_array);
        required.is_some_and(|it| it.iter().any(|it| it == name))
    }

    /// The type of an argument, if it is one.
    pub fn type_of(&self, name: &str) -> Option<&str> {
        self.property(name)?.get("type")?.as_str()
    }

    /// What an argument has beside its schema.
    pub fn rules(&self, name: &str) -> Option<&ArgumentRules> {
        self.rules.get(name)
    }

    /// Adds the defaults of arguments that `arguments` does not have.
    pub fn add_defaults(&self, arguments: &mut Map<String, Value>) {
        let properties = self.schema.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            if let Some(default) = schema.get("default")
                && !arguments.contains_key(name)
            {
                arguments.insert(name.clone(), default.clone());
            }
        }
    }
}

fn read_argument(
    name: &str,
    table: &Value,
) -> Result<(Map<String, Value>, ArgumentRules), Problem> {
    let key = format!("arguments.{name}");
    let Value::Object(table) = table else {
        let hint = "write a JSON Schema, such as { type = \"string\" }";
        return Err(Problem::new(key, "is not a table", hint));
    };
    let mut schema = table.clone();
    let own: Map<String, Value> = OWN_KEYS
        .iter()
        .filter_map(|own| Some(((*own).to_owned(), schema.shift_remove(*own)?)))
        .collect();
    let rules = ArgumentRules::deserialize(Value::Object(own)).map_err(|error| {
        let hint = "required and dash are true or false, within is a folder";
        Problem::new(key.as_str(), error.to_string(), hint)
    })?;
    for keyword in schema.keys() {
        if !KEYWORDS.contains(&keyword.as_str()) {
            let known = KEYWORDS.iter().chain(&OWN_KEYS).copied();
            let hint = match nearest(keyword, known) {
                Some(known) => format!("did you mean {known}?"),
                None => "see JSON Schema 2020-12, or give the whole schema in a file".to_owned(),
            };
            let key = format!("{key}.{keyword}");
            return Err(Problem::new(key, "is no keyword of JSON Schema", hint));
        }
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && pattern.len() > PATTERN_BYTES_MAX
    {
        let message = format!("is longer than {PATTERN_BYTES_MAX} bytes");
        return Err(Problem::new(format!("{key}.pattern"), message, "write a shorter one"));
    }
    Ok((schema, rules))
}

/// Length of the longest pattern.
const PATTERN_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(tables: Value) -> Result<Arguments, Vec<Problem>> {
        let Value::Object(tables) = tables else { panic!("not an object") };
        Arguments::from_tables(&tables)
    }

    #[test]
    fn arguments_are_required_without_default() {
        let found = arguments(json!({
            "path": { "type": "string", "within": "/srv" },
            "depth": { "type": "integer", "default": 1 },
            "verbose": { "type": "boolean", "required": false },
        }))
        .unwrap();
        assert_eq!(found.schema()["required"], json!(["path"]));
        assert_eq!(found.property("path"), Some(&json!({ "type": "string" })));
        assert_eq!(found.rules("path").unwrap().within.as_deref(), Some("/srv".as_ref()));
        let required = ["path", "depth", "verbose"].map(|name| found.is_required(name));
        assert_eq!(required, [true, false, false]);
        let mut given = Map::new();
        found.add_defaults(&mut given);
        assert_eq!(Value::Object(given), json!({ "depth": 1 }));
    }

    #[test]
    fn unknown_keyword_of_argument_is_refused() {
        let problems = arguments(json!({ "a": { "type": "string", "minimun": 1 } })).unwrap_err();
        assert_eq!(problems[0].key, "arguments.a.minimun");
        assert_eq!(problems[0].hint, "did you mean minimum?");
        assert!(arguments(json!({ "a": "string" })).is_err());
        assert!(arguments(json!({ "a": { "dash": 1 } })).is_err());
    }
}
