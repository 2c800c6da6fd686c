//! Schemas of OpenAPI as JSON Schema 2020-12.
//!
//! Each keyword is kept only with a value that JSON Schema allows for it, so that every result is a
//! valid schema. References become references to `$defs`; see [`super::bundle`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::document::Document;
use super::names::clean;

/// Whether a schema is for arguments or for results.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Direction {
    /// Properties with `readOnly` are left out.
    Input,
    /// Properties with `writeOnly` are left out. Names and types are kept, each with `null`,
    /// without what else is required: servers often send more, less and other values than their
    /// documents say, and clients reject a result that is not as its schema.
    Output,
}

/// Where a schema stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaPlace {
    pub(super) direction: Direction,
    /// Whether it is applied to the same value as the outermost schema.
    is_in_place: bool,
}

impl SchemaPlace {
    /// The outermost schema.
    pub(super) fn root(direction: Direction) -> Self {
        Self { direction, is_in_place: true }
    }

    /// A schema that is applied to a part of the value.
    pub(super) fn part(self) -> Self {
        Self { is_in_place: false, ..self }
    }
}

/// Definitions that a schema refers to, by their JSON Pointers.
#[derive(Clone, Debug, Default)]
pub(super) struct References {
    pub(super) all: BTreeSet<String>,
    /// Those that are applied to the same value.
    pub(super) in_place: BTreeSet<String>,
}

/// Converts the schemas of one document.
#[derive(Debug)]
pub(super) struct SchemaConverter<'a> {
    pub(super) document: &'a Document,
    patterns: BTreeMap<String, bool>,
    names: BTreeMap<String, String>,
    used_names: BTreeSet<String>,
}

/// Items of an `enum` of a definition that is written where it is used.
const INLINE_ITEMS_MAX: usize = 40;
/// Values of an `enum` that are examples of a result.
const VALUES_MAX: usize = 10;
/// Bytes of an example.
const EXAMPLE_BYTES_MAX: usize = 200;

/// What stands beside a reference without changing what is valid.
const ANNOTATIONS: [&str; 6] =
    ["title", "description", "default", "example", "examples", "deprecated"];

/// Keywords whose values have schemas.
const APPLICATORS: [&str; 16] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "items",
    "prefixItems",
    "contains",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "propertyNames",
    "$ref",
];

impl<'a> SchemaConverter<'a> {
    pub(super) fn new(document: &'a Document) -> Self {
        let (patterns, names) = (BTreeMap::new(), BTreeMap::new());
        Self { document, patterns, names, used_names: BTreeSet::new() }
    }

    /// The name in `$defs` of the definition at a JSON Pointer.
    pub(super) fn name(&mut self, pointer: &str) -> String {
        if let Some(name) = self.names.get(pointer) {
            return name.clone();
        }
        let last = clean(pointer.rsplit('/').next().unwrap_or_default());
        let last = if last.is_empty() { "schema".to_owned() } else { last };
        let numbered = (2_u32..).map(|number| format!("{last}_{number}"));
        let mut candidates = std::iter::once(last.clone()).chain(numbered);
        let name = candidates.find(|name| !self.used_names.contains(name)).unwrap_or_default();
        self.used_names.insert(name.clone());
        self.names.insert(pointer.to_owned(), name.clone());
        name
    }

    /// Converts a schema.
    ///
    /// # Errors
    ///
    /// A reference has no target in the document.
    pub(super) fn convert(
        &mut self,
        schema: &Value,
        place: SchemaPlace,
        references: &mut References,
    ) -> Result<Value, String> {
        let members = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(members) => members,
            _ => return Ok(json!({})),
        };
        let mut converted = Map::new();
        let mut is_reference = false;
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            let others = members.keys().filter(|key| *key != "$ref");
            let is_plain = others.clone().all(|key| ANNOTATIONS.contains(&key.as_str()));
            match self.reference(reference, is_plain, place, references)? {
                Value::Object(target) => converted = target,
                other => return Ok(other),
            }
            is_reference = true;
        }
        for (key, value) in members {
            // OpenAPI 3.0 ignores what stands beside a reference.
            if is_reference
                && self.document.is_3_0
                && !matches!(key.as_str(), "title" | "description")
            {
                continue;
            }
            if let Some(value) = self.keyword(key, value, place, references)? {
                converted.insert(key.clone(), value);
            }
        }
        match place.direction {
            Direction::Input => {
                self.drop_hidden(members, &mut converted);
                convert_bounds(members, &mut converted);
            }
            Direction::Output => {
                // A value may be valid for more than one of these without their constraints.
                if let Some(alternatives) = converted.remove("oneOf") {
                    converted.entry("anyOf").or_insert(alternatives);
                }
                convert_values(members, &mut converted);
            }
        }
        convert_example(members, &mut converted);
        if members.get("nullable") == Some(&Value::Bool(true)) {
            return Ok(nullable(converted));
        }
        Ok(Value::Object(converted))
    }

    /// A reference to a definition; a definition of a few words is written in its place.
    fn reference(
        &mut self,
        reference: &str,
        may_inline: bool,
        place: SchemaPlace,
        references: &mut References,
    ) -> Result<Value, String> {
        let pointer = self.document.schema_pointer(reference)?;
        let target = self.document.target(&format!("#{}", percent_encoded(&pointer)))?;
        if may_inline && is_short(target) {
            return self.convert(target, place, references);
        }
        if place.is_in_place {
            references.in_place.insert(pointer.clone());
        }
        let name = self.name(&pointer);
        references.all.insert(pointer);
        Ok(json!({ "$ref": format!("#/$defs/{name}") }))
    }

    /// The value of a keyword, `None` if it is left out.
    fn keyword(
        &mut self,
        key: &str,
        value: &Value,
        place: SchemaPlace,
        references: &mut References,
    ) -> Result<Option<Value>, String> {
        if place.direction == Direction::Output {
            return self.output_keyword(key, value, place, references);
        }
        Ok(match key {
            "not" | "if" | "then" | "else" => Some(self.convert(value, place, references)?),
            "items" if value.is_array() => None,
            "items"
            | "contains"
            | "propertyNames"
            | "additionalProperties"
            | "unevaluatedItems"
            | "unevaluatedProperties" => Some(self.convert(value, place.part(), references)?),
            "allOf" | "anyOf" | "oneOf" => self.list(value, place, references)?,
            "prefixItems" => self.list(value, place.part(), references)?,
            "properties" => self.map(value, place.part(), references)?,
            "dependentSchemas" => self.map(value, place, references)?,
            "patternProperties" => {
                let is_valid = value
                    .as_object()
                    .is_some_and(|members| members.keys().all(|key| self.is_pattern(key)));
                if is_valid { self.map(value, place.part(), references)? } else { None }
            }
            "pattern" => value.as_str().filter(|text| self.is_pattern(text)).map(|_| value.clone()),
            _ => plain_keyword(key, value),
        })
    }

    /// The value of a keyword in a schema of results.
    fn output_keyword(
        &mut self,
        key: &str,
        value: &Value,
        place: SchemaPlace,
        references: &mut References,
    ) -> Result<Option<Value>, String> {
        Ok(match key {
            "items" | "additionalProperties" if value.is_object() => {
                Some(self.convert(value, place.part(), references)?)
            }
            "allOf" | "anyOf" | "oneOf" => self.list(value, place, references)?,
            "prefixItems" => self.list(value, place.part(), references)?,
            "properties" => self.map(value, place.part(), references)?,
            "title" | "description" | "format" | "contentEncoding" | "contentMediaType"
            | "deprecated" | "examples" => plain_keyword(key, value),
            "type" => convert_type(value).map(|kind| match kind {
                Value::Array(mut kinds) => {
                    if !kinds.contains(&json!("null")) {
                        kinds.push(json!("null"));
                    }
                    Value::Array(kinds)
                }
                kind if kind == "null" => kind,
                kind => json!([kind, "null"]),
            }),
            _ => None,
        })
    }

    fn list(
        &mut self,
        value: &Value,
        place: SchemaPlace,
        references: &mut References,
    ) -> Result<Option<Value>, String> {
        let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
            return Ok(None);
        };
        let items = items.iter().map(|item| self.convert(item, place, references));
        Ok(Some(items.collect::<Result<Value, _>>()?))
    }

    fn map(
        &mut self,
        value: &Value,
        place: SchemaPlace,
        references: &mut References,
    ) -> Result<Option<Value>, String> {
        let Some(members) = value.as_object() else {
            return Ok(None);
        };
        let mut converted = Map::new();
        for (name, value) in members {
            if !self.is_hidden(value, place.direction) {
                converted.insert(name.clone(), self.convert(value, place, references)?);
            }
        }
        Ok(Some(Value::Object(converted)))
    }

    /// Whether a property is not part of arguments, or not part of results.
    pub(super) fn is_hidden(&self, schema: &Value, direction: Direction) -> bool {
        let key = match direction {
            Direction::Input => "readOnly",
            Direction::Output => "writeOnly",
        };
        let target = self.document.resolve(schema).unwrap_or(schema);
        schema[key] == Value::Bool(true) || target[key] == Value::Bool(true)
    }

    /// Removes the names of hidden properties from `required`.
    fn drop_hidden(&self, members: &Map<String, Value>, converted: &mut Map<String, Value>) {
        let Some(required) = converted.get_mut("required").and_then(Value::as_array_mut) else {
            return;
        };
        let properties = members.get("properties").unwrap_or(&Value::Null);
        required.retain(|name| {
            let property = name.as_str().and_then(|name| properties.get(name));
            !property.is_some_and(|property| self.is_hidden(property, Direction::Input))
        });
        if required.is_empty() {
            converted.remove("required");
        }
    }

    /// Whether the validator accepts a regular expression.
    fn is_pattern(&mut self, pattern: &str) -> bool {
        if let Some(&known) = self.patterns.get(pattern) {
            return known;
        }
        let schema = json!({ "pattern": pattern });
        let is_valid = jsonschema::draft202012::new(&schema).is_ok();
        self.patterns.insert(pattern.to_owned(), is_valid);
        is_valid
    }
}

/// Whether a definition is short enough to be written where it is used.
fn is_short(schema: &Value) -> bool {
    let has_applicator = APPLICATORS.iter().any(|key| !schema[key].is_null());
    let items = schema["enum"].as_array().map_or(0, Vec::len);
    !has_applicator && items <= INLINE_ITEMS_MAX
}

/// A keyword without schemas in its value.
fn plain_keyword(key: &str, value: &Value) -> Option<Value> {
    let keep = |is_valid: bool| is_valid.then(|| value.clone());
    match key {
        "title" | "description" | "format" | "contentEncoding" | "contentMediaType" => {
            keep(value.is_string())
        }
        "const" | "default" => keep(true),
        "deprecated" | "uniqueItems" => keep(value.is_boolean()),
        "enum" => keep(value.as_array().is_some_and(|items| !items.is_empty())),
        "examples" => examples(value.as_array()?.iter()),
        "type" => convert_type(value),
        "required" => unique_strings(value).filter(|names| names != &json!([])),
        "dependentRequired" => {
            let members = value.as_object()?.iter();
            let names = members.map(|(name, names)| Some((name.clone(), unique_strings(names)?)));
            names.collect::<Option<Map<_, _>>>().map(Value::Object)
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => keep(value.is_number()),
        "multipleOf" => keep(value.as_f64().is_some_and(|number| number > 0.0)),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => count(value),
        _ => None,
    }
}

/// A number without fraction that is not negative.
fn count(value: &Value) -> Option<Value> {
    if value.is_u64() {
        return Some(value.clone());
    }
    let number = value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0)?;
    let text = format!("{number:.0}");
    text.parse::<u64>().ok().map(Value::from)
}

fn convert_type(value: &Value) -> Option<Value> {
    const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];
    let known =
        |value: &Value| value.as_str().filter(|name| TYPES.contains(name)).map(str::to_owned);
    match value {
        Value::Array(names) => {
            let mut types: Vec<String> = Vec::new();
            for name in names.iter().filter_map(known) {
                if !types.contains(&name) {
                    types.push(name);
                }
            }
            (!types.is_empty()).then(|| json!(types))
        }
        name => known(name).map(Value::String),
    }
}

fn unique_strings(value: &Value) -> Option<Value> {
    let mut names: Vec<&str> = Vec::new();
    for name in value.as_array()?.iter().filter_map(Value::as_str) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Some(json!(names))
}

fn examples<'a>(values: impl Iterator<Item = &'a Value>) -> Option<Value> {
    let is_kept = |value: &&Value| {
        let text = value.to_string();
        text.len() <= EXAMPLE_BYTES_MAX && !text.contains("\"$ref\"")
    };
    let examples: Vec<&Value> = values.filter(is_kept).take(3).collect();
    (!examples.is_empty()).then(|| json!(examples))
}

/// `example` is one of `examples`.
fn convert_example(members: &Map<String, Value>, converted: &mut Map<String, Value>) {
    if let Some(example) = members.get("example")
        && !converted.contains_key("examples")
        && let Some(examples) = examples(std::iter::once(example))
    {
        converted.insert("examples".to_owned(), examples);
    }
}

/// The values of a result that a document lists are examples.
fn convert_values(members: &Map<String, Value>, converted: &mut Map<String, Value>) {
    let listed = members.get("enum").and_then(Value::as_array).into_iter().flatten();
    let values = listed.chain(members.get("const"));
    let values: Vec<&Value> = values.filter(|value| !value.is_null()).take(VALUES_MAX).collect();
    if !values.is_empty() && json!(values).to_string().len() <= EXAMPLE_BYTES_MAX {
        converted.insert("examples".to_owned(), json!(values));
    }
}

/// In OpenAPI 3.0 `exclusiveMinimum` and `exclusiveMaximum` are truth values.
fn convert_bounds(members: &Map<String, Value>, converted: &mut Map<String, Value>) {
    for [bound, exclusive] in [["minimum", "exclusiveMinimum"], ["maximum", "exclusiveMaximum"]] {
        if members.get(exclusive) == Some(&Value::Bool(true))
            && let Some(value) = converted.remove(bound)
        {
            converted.insert(exclusive.to_owned(), value);
        }
    }
}

/// A schema that is valid for `null`, too.
fn nullable(mut schema: Map<String, Value>) -> Value {
    let has_others = APPLICATORS.iter().any(|key| {
        let is_structure = matches!(*key, "properties" | "additionalProperties" | "items");
        !is_structure && schema.contains_key(*key)
    });
    let has_others = has_others || schema.contains_key("const");
    let has_enum = schema.contains_key("enum");
    match schema.get_mut("type") {
        Some(name @ Value::String(_)) if !has_others => *name = json!([name, "null"]),
        Some(Value::Array(names)) if !has_others => {
            if !names.iter().any(|name| name == "null") {
                names.push(json!("null"));
            }
        }
        None if !has_others && !has_enum => return Value::Object(schema),
        _ => {
            let mut outer = Map::new();
            for key in ["title", "description", "default", "deprecated"] {
                if let Some(value) = schema.remove(key) {
                    outer.insert(key.to_owned(), value);
                }
            }
            outer.insert("anyOf".to_owned(), json!([schema, { "type": "null" }]));
            return Value::Object(outer);
        }
    }
    if let Some(items) = schema.get_mut("enum").and_then(Value::as_array_mut)
        && !items.contains(&Value::Null)
    {
        items.push(Value::Null);
    }
    Value::Object(schema)
}

/// The fragment of a reference with a JSON Pointer.
fn percent_encoded(pointer: &str) -> String {
    pointer.replace('%', "%25")
}
