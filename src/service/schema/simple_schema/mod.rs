//! A JSON Schema of common keywords, compiled so that validation allocates nothing.
//!
//! Invariant: a compiled schema accepts exactly the values that the JSON Schema accepts. A schema
//! with any other keyword does not compile and is left to the `jsonschema` crate.
//!
//! Source: JSON Schema 2020-12, Validation, sections 6 and 9.

mod types;

use corelane_protocol::json::{Object, Value, ValueKind};
use serde_json::{Map, Value as Json};

use self::types::{AllowedValues, LengthRange, NumberRange, TypeSet};
use crate::service::schema::violation::{Violation, within};

/// The schema uses a keyword or value that [`SimpleSchema`] does not support.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsupported;

#[derive(Clone, Debug, Default)]
pub(super) struct SimpleSchema {
    /// Allowed types; `None` allows all.
    types: Option<TypeSet>,
    /// There is no constraint beside the type.
    is_type_only: bool,
    range: Option<NumberRange>,
    length: Option<LengthRange>,
    /// Allowed values (`enum`, `const`); `None` allows all.
    allowed_values: Option<AllowedValues>,
    object: Option<ObjectConstraints>,
    array: Option<ArrayConstraints>,
}

#[derive(Clone, Debug)]
struct ObjectConstraints {
    /// Properties in the order of the schema.
    properties: Box<[(Box<str>, SimpleSchema)]>,
    /// Indexes into `properties`, sorted by name; empty if there are few, which are scanned.
    by_name: Box<[usize]>,
    /// Required properties, as bits of their indices in `properties`.
    required: u64,
    /// Whether additional properties are allowed.
    allows_additional: bool,
}

#[derive(Clone, Debug)]
struct ArrayConstraints {
    items: Option<Box<SimpleSchema>>,
    length: LengthRange,
}

impl SimpleSchema {
    /// Compiles `schema`; fails if it is not supported.
    pub(super) fn compile(schema: &Json) -> Result<Self, Unsupported> {
        match schema {
            Json::Bool(true) => Ok(Self::default()),
            Json::Object(schema) => Self::compile_object(schema),
            _ => Err(Unsupported),
        }
    }

    fn compile_object(schema: &Map<String, Json>) -> Result<Self, Unsupported> {
        if !schema.keys().all(|key| is_supported_keyword(key)) {
            return Err(Unsupported);
        }
        let types = schema.get("type").map(TypeSet::parse).transpose()?;
        let range = NumberRange::compile(schema)?;
        let length = LengthRange::compile(schema, "minLength", "maxLength")?;
        let allowed_values = AllowedValues::compile(schema)?;
        let object = ObjectConstraints::compile(schema)?;
        let array = ArrayConstraints::compile(schema)?;
        let is_type_only = range.is_none()
            && length.is_none()
            && allowed_values.is_none()
            && object.is_none()
            && array.is_none();
        Ok(Self { types, is_type_only, range, length, allowed_values, object, array })
    }

    #[inline]
    pub(super) fn validate(&self, value: Value<'_>) -> Result<(), Violation> {
        if let Some(types) = self.types
            && !types.contains_type_of(value)
        {
            return Err(types.violation(value));
        }
        if self.is_type_only { Ok(()) } else { self.validate_constraints(value) }
    }

    /// Validates the constraints beside the type.
    fn validate_constraints(&self, value: Value<'_>) -> Result<(), Violation> {
        match value.kind() {
            ValueKind::String => self.validate_string(value.as_str().unwrap_or_default())?,
            ValueKind::Number => {
                if let Some(range) = self.range {
                    range.check(value.as_f64().unwrap_or_default())?;
                }
            }
            ValueKind::Object => {
                if let Some(constraints) = &self.object {
                    constraints.validate(value.as_object())?;
                }
            }
            ValueKind::Array => {
                if let Some(constraints) = &self.array {
                    constraints.validate(value)?;
                }
            }
            ValueKind::Boolean | ValueKind::Null => {}
        }
        match &self.allowed_values {
            Some(allowed) if !allowed.contains(value) => {
                Err(Violation::not_allowed_value(allowed.to_json(), value))
            }
            _ => Ok(()),
        }
    }

    /// Validates the members of an object; `None` means an empty object.
    #[inline]
    pub(super) fn validate_object(&self, object: Option<Object<'_>>) -> Result<(), Violation> {
        match &self.object {
            Some(constraints) => constraints.validate(object),
            None => Ok(()),
        }
    }

    #[inline]
    fn validate_string(&self, text: &str) -> Result<(), Violation> {
        let Some(length) = self.length else { return Ok(()) };
        length.check(text.chars().count(), "characters")
    }
}

impl ObjectConstraints {
    fn compile(schema: &Map<String, Json>) -> Result<Option<Self>, Unsupported> {
        let keys = ["properties", "required", "additionalProperties"];
        if !keys.iter().any(|key| schema.contains_key(*key)) {
            return Ok(None);
        }
        let mut properties = Vec::new();
        if let Some(object) = schema.get("properties") {
            for (name, property) in object.as_object().ok_or(Unsupported)? {
                properties.push((Box::from(name.as_str()), SimpleSchema::compile(property)?));
            }
        }
        let allows_additional = match schema.get("additionalProperties") {
            None | Some(Json::Bool(true)) => true,
            Some(Json::Bool(false)) => false,
            Some(_) => return Err(Unsupported),
        };
        let mut required = 0;
        for name in Self::required(schema)? {
            let name = name.as_str().ok_or(Unsupported)?;
            let index = match properties.iter().position(|(known, _)| **known == *name) {
                Some(index) => index,
                None if allows_additional => {
                    properties.push((name.into(), SimpleSchema::default()));
                    properties.len() - 1
                }
                // Required and forbidden at once: no value is valid.
                None => return Err(Unsupported),
            };
            let bit = u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index));
            required |= bit.ok_or(Unsupported)?;
        }
        let by_name = Self::sort_by_name(&properties);
        Ok(Some(Self { properties: properties.into(), by_name, required, allows_additional }))
    }

    fn sort_by_name(properties: &[(Box<str>, SimpleSchema)]) -> Box<[usize]> {
        if properties.len() <= SCANNED_MAX {
            return Box::default();
        }
        let mut by_name: Box<[usize]> = (0..properties.len()).collect();
        by_name.sort_unstable_by_key(|index| &properties[*index].0);
        by_name
    }

    fn required(schema: &Map<String, Json>) -> Result<&[Json], Unsupported> {
        match schema.get("required") {
            None => Ok(&[]),
            Some(Json::Array(names)) => Ok(names),
            Some(_) => Err(Unsupported),
        }
    }

    #[inline]
    fn validate(&self, object: Option<Object<'_>>) -> Result<(), Violation> {
        if self.by_name.is_empty() {
            return self.validate_members(object, |name| {
                let mut properties = self.properties.iter().enumerate();
                let (index, (_, schema)) = properties.find(|(_, (known, _))| **known == *name)?;
                Some((index, schema))
            });
        }
        self.validate_members(object, |name| {
            let compare = |index: &usize| (*self.properties[*index].0).cmp(name);
            let place = self.by_name.binary_search_by(compare).ok()?;
            let index = self.by_name[place];
            Some((index, &self.properties[index].1))
        })
    }

    /// Validates each member with the property that `find` returns for its name, with its index.
    #[inline]
    fn validate_members<'s>(
        &'s self,
        object: Option<Object<'_>>,
        find: impl Fn(&str) -> Option<(usize, &'s SimpleSchema)>,
    ) -> Result<(), Violation> {
        let mut missing = self.required;
        // The `Option` is not flattened into the iterator: that is as slow as the loop itself.
        if let Some(object) = object {
            for (name, value) in object {
                match find(name) {
                    Some((index, schema)) => {
                        schema.validate(value).map_err(|inner| within(name, inner))?;
                        if index < 64 {
                            missing &= !(1 << index);
                        }
                    }
                    None if self.allows_additional => {}
                    None => return Err(self.unknown_property(name)),
                }
            }
        }
        if missing == 0 {
            return Ok(());
        }
        let first = missing.trailing_zeros() as usize;
        Err(within(&self.properties[first].0, Violation::missing()))
    }

    #[cold]
    fn unknown_property(&self, name: &str) -> Violation {
        let allowed = self.properties.iter().map(|(known, _)| &**known);
        within(name, Violation::unknown_property(allowed))
    }
}

impl ArrayConstraints {
    fn compile(schema: &Map<String, Json>) -> Result<Option<Self>, Unsupported> {
        let length = LengthRange::compile(schema, "minItems", "maxItems")?;
        let items = schema.get("items").map(SimpleSchema::compile).transpose()?.map(Box::new);
        if length.is_none() && items.is_none() {
            return Ok(None);
        }
        let length = length.unwrap_or(LengthRange::ANY);
        Ok(Some(Self { items, length }))
    }

    fn validate(&self, value: Value<'_>) -> Result<(), Violation> {
        let Some(array) = value.as_array() else { return Ok(()) };
        self.length.check(array.len(), "items")?;
        let Some(items) = &self.items else { return Ok(()) };
        for (index, item) in array.iter().enumerate() {
            items.validate(item).map_err(|inner| within(&index.to_string(), inner))?;
        }
        Ok(())
    }
}

/// Number of properties or allowed values that are scanned for a value; more are searched.
const SCANNED_MAX: usize = 16;

/// Whether the keyword is supported, or is an annotation.
fn is_supported_keyword(key: &str) -> bool {
    ASSERTIONS.contains(&key) || ANNOTATIONS.contains(&key) || key.starts_with("x-")
}

const ASSERTIONS: [&str; 16] = [
    "additionalProperties",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "properties",
    "required",
    "type",
    // Definitions for `$ref`, which is not supported, so that they are unreachable.
    "$defs",
];

const ANNOTATIONS: [&str; 11] = [
    "$comment",
    "contentEncoding",
    "contentMediaType",
    "default",
    "deprecated",
    "description",
    "examples",
    "format",
    "readOnly",
    "title",
    "writeOnly",
];

#[cfg(test)]
mod tests {
    use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};
    use serde_json::json;

    use super::*;

    fn validate(schema: &SimpleSchema, value: &Json) -> Result<(), String> {
        let text = value.to_string();
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() + PADDING_BYTES, 0);
        let mut parser = Parser::new(ParseLimits::default());
        let document = parser.parse(PaddedText::new(&mut bytes, text.len())).unwrap();
        schema.validate(document.root()).map_err(|violation| violation.to_string())
    }

    /// Supported schemas, for validation of all [`values`].
    fn schemas() -> Vec<Json> {
        vec![
            json!({}),
            json!(true),
            json!({ "type": "string", "minLength": 2, "maxLength": 3 }),
            json!({ "type": ["integer", "null"], "minimum": -1, "exclusiveMaximum": 7 }),
            json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 2.5 }),
            json!({ "enum": ["a", 1, true, null] }),
            json!({ "const": 2, "title": "Two" }),
            json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 2 }),
            json!({ "type": "object", "additionalProperties": false }),
            json!({
                "type": "object",
                "properties": { "a": { "type": "integer" }, "b": { "enum": ["x"] } },
                "required": ["a", "c"],
            }),
            json!({
                "type": "object",
                "properties": { "a": { "type": "object", "properties": { "b": true } } },
                "required": ["a"],
                "additionalProperties": false,
            }),
            json!({ "enum": many_values() }),
            json!({
                "properties": many_properties(2 * SCANNED_MAX),
                "required": ["c", "p1"],
                "additionalProperties": true,
            }),
            json!({
                "properties": many_properties(2 * SCANNED_MAX),
                "additionalProperties": false,
            }),
        ]
    }

    /// Returns allowed values of each type, more than are scanned.
    fn many_values() -> Vec<Json> {
        let texts = (0..SCANNED_MAX).map(|index| json!(format!("{index}")));
        texts.chain([json!("a"), json!(1), json!(-0.0), json!(null), json!(true)]).collect()
    }

    /// Returns `count` properties `p0` and so on, after the property `a`.
    fn many_properties(count: usize) -> Json {
        let others = (0..count).map(|index| (format!("p{index}"), json!({ "type": "integer" })));
        [("a".to_owned(), json!({ "type": "integer" }))].into_iter().chain(others).collect()
    }

    fn values() -> Vec<Json> {
        vec![
            json!(null),
            json!(true),
            json!(0),
            json!(1),
            json!(2.0),
            json!(2.5),
            json!(-1),
            json!(7),
            json!(u64::MAX),
            json!(1e300),
            json!(""),
            json!("a"),
            json!("éé"),
            json!("four"),
            json!([]),
            json!(["a"]),
            json!(["a", 1]),
            json!(["a", "b", "c"]),
            json!({}),
            json!({ "a": 1 }),
            json!({ "a": 1, "c": null }),
            json!({ "a": 1.5, "c": null }),
            json!({ "a": 1, "b": "y", "c": [] }),
            json!({ "a": { "b": 1 } }),
            json!({ "a": { "b": 1 }, "d": 1 }),
            json!({ "p1": 1, "c": 1 }),
            json!({ "p31": 1, "c": 1, "p0": 1, "p1": "x" }),
            json!({ "p31": 1, "p0": 1, "p16": 1 }),
            json!({ "p32": 1 }),
        ]
    }

    #[test]
    fn simple_schema_agrees_with_jsonschema_crate() {
        for schema in schemas() {
            let simple = SimpleSchema::compile(&schema).unwrap();
            let full = jsonschema::validator_for(&schema).unwrap();
            for value in values() {
                let result = validate(&simple, &value);
                assert_eq!(result.is_ok(), full.is_valid(&value), "{schema} {value}: {result:?}");
            }
        }
    }

    /// A scan of the schema for each value would take more than ten minutes.
    #[test]
    fn many_properties_and_allowed_values_are_searched() {
        const COUNT: usize = 200_000;
        let schema = SimpleSchema::compile(&json!({
            "properties": many_properties(COUNT),
            "required": ["a"],
            "additionalProperties": false,
        }));
        let schema = schema.unwrap();
        let mut members: Map<_, _> =
            (0..COUNT).rev().map(|index| (format!("p{index}"), json!(1))).collect();
        assert_eq!(
            validate(&schema, &members.clone().into()).unwrap_err(),
            "argument `a` is missing"
        );
        members.insert("a".to_owned(), json!(1));
        assert_eq!(validate(&schema, &members.into()), Ok(()));
        let texts: Vec<_> = (0..COUNT).map(|index| json!(format!("text{index}"))).collect();
        let schema = SimpleSchema::compile(&json!({ "items": { "enum": texts } })).unwrap();
        assert_eq!(validate(&schema, &texts.into_iter().rev().collect()), Ok(()));
    }

    #[test]
    fn unsupported_schema_does_not_compile() {
        for schema in [
            json!({ "pattern": "^a" }),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": {} } }),
            json!({ "oneOf": [{}, {}] }),
            json!({ "properties": { "a": { "not": {} } } }),
            json!({ "items": { "uniqueItems": true } }),
            json!({ "additionalProperties": { "type": "string" } }),
            json!({ "required": ["a"], "additionalProperties": false }),
            json!({ "minimum": 9_007_199_254_740_993_u64 }),
            json!({ "enum": [[1]] }),
            json!({ "const": 1, "enum": [1] }),
            json!({ "unheard-of": 1 }),
            json!(false),
        ] {
            assert!(SimpleSchema::compile(&schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn violation_names_path_and_constraint() {
        let schema = SimpleSchema::compile(&json!({
            "type": "object",
            "properties": {
                "steps": { "type": "integer", "minimum": 1, "maximum": 1000 },
                "names": { "type": "array", "items": { "type": "string", "maxLength": 3 } },
                "mode": { "enum": ["fast", "safe"] },
            },
            "required": ["steps"],
            "additionalProperties": false,
        }));
        let schema = schema.unwrap();
        for (value, message) in [
            (json!({}), "`steps` is missing"),
            (json!({ "steps": 0 }), "`steps` must be at least 1, received 0"),
            (json!({ "steps": 1.5 }), "`steps` must be an integer, received number 1.5"),
            (
                json!({ "steps": 1, "names": ["a", "long"] }),
                "`names.1` must have at most 3 characters, received 4",
            ),
            (
                json!({ "steps": 1, "mode": "slow" }),
                "`mode` must be \"fast\" or \"safe\", received string \"slow\"",
            ),
            (
                json!({ "steps": 1, "extra": 1 }),
                "`extra` is unknown; allowed are `steps`, `names`, `mode`",
            ),
        ] {
            assert_eq!(validate(&schema, &value).unwrap_err(), format!("argument {message}"));
        }
    }
}
