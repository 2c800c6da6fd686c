//! The rule: a JSON Schema of the everyday kind, compiled so that checking a value allocates
//! nothing.
//!
//! What it keeps true: a rule that exists says all that its schema says. A schema with any keyword
//! that is not listed here has no rule, and is left to the whole validator. It does not read
//! `format`, which asserts nothing in MCP's default dialect.
//!
//! Source: JSON Schema 2020-12, Validation, sections 6 and 9.

mod bounds;

mod choice;

use serde_json::{Map, Value as Json};

use self::bounds::{Length, Range};
use self::choice::{Kinds, Scalar, compile_choices};
use crate::protocol::json::{Kind, Object, Value};
use crate::service::schema::violation::{Violation, at};

/// A schema says more than a rule can.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beyond;

/// What a value must be.
#[derive(Clone, Debug, Default)]
pub(super) struct Rule {
    /// The kinds it may have; none named is any.
    kinds: Option<Kinds>,
    /// Nothing else is said.
    is_kind_alone: bool,
    range: Option<Range>,
    length: Option<Length>,
    /// The values it may have (`enum`, `const`); none is any.
    choices: Option<Box<[Scalar]>>,
    members: Option<Members>,
    items: Option<Items>,
}

/// What an object must hold.
#[derive(Clone, Debug)]
struct Members {
    /// The known ones, in the order of the schema.
    known: Box<[(Box<str>, Rule)]>,
    /// Those that must be there, as bits of their places in `known`.
    required: u64,
    /// Whether others may be there.
    open: bool,
}

/// What an array must hold.
#[derive(Clone, Debug)]
struct Items {
    each: Option<Box<Rule>>,
    count: Length,
}

impl Rule {
    /// The rule that says all that `schema` says; fails where it says more than a rule can.
    pub(super) fn compile(schema: &Json) -> Result<Self, Beyond> {
        match schema {
            Json::Bool(true) => Ok(Self::default()),
            Json::Object(schema) => Self::compile_object(schema),
            _ => Err(Beyond),
        }
    }

    fn compile_object(schema: &Map<String, Json>) -> Result<Self, Beyond> {
        if !schema.keys().all(|key| is_known(key)) {
            return Err(Beyond);
        }
        let kinds = schema.get("type").map(Kinds::read).transpose()?;
        let range = Range::compile(schema)?;
        let length = Length::compile(schema, "minLength", "maxLength")?;
        let choices = compile_choices(schema)?;
        let members = Members::compile(schema)?;
        let items = Items::compile(schema)?;
        let is_kind_alone = range.is_none()
            && length.is_none()
            && choices.is_none()
            && members.is_none()
            && items.is_none();
        Ok(Self { kinds, is_kind_alone, range, length, choices, members, items })
    }

    /// Checks one value. Allocates only to say what is wrong.
    #[inline]
    pub(super) fn check(&self, value: Value<'_>) -> Result<(), Violation> {
        if let Some(kinds) = self.kinds
            && !kinds.admit(value)
        {
            return Err(Violation::kind(kinds.names()));
        }
        if self.is_kind_alone { Ok(()) } else { self.check_inside(value) }
    }

    /// Checks what a value of the right kind is or holds.
    fn check_inside(&self, value: Value<'_>) -> Result<(), Violation> {
        match value.kind() {
            Kind::String => self.check_text(value.as_str().unwrap_or_default())?,
            Kind::Number => {
                if let Some(range) = self.range {
                    range.check(value.as_f64().unwrap_or_default())?;
                }
            }
            Kind::Object => {
                if let Some(members) = &self.members {
                    members.check(value.as_object())?;
                }
            }
            Kind::Array => {
                if let Some(items) = &self.items {
                    items.check(value)?;
                }
            }
            Kind::Boolean | Kind::Null => {}
        }
        match &self.choices {
            Some(choices) if !choices.iter().any(|choice| choice.is(value)) => {
                Err(Violation::choice(choices.iter().map(Scalar::spell)))
            }
            _ => Ok(()),
        }
    }

    /// Checks the members of an object; none stands for the empty one.
    #[inline]
    pub(super) fn check_object(&self, object: Option<Object<'_>>) -> Result<(), Violation> {
        match &self.members {
            Some(members) => members.check(object),
            None => Ok(()),
        }
    }

    #[inline]
    fn check_text(&self, text: &str) -> Result<(), Violation> {
        let Some(length) = self.length else { return Ok(()) };
        length.check(text.chars().count(), "characters")
    }
}

impl Members {
    fn compile(schema: &Map<String, Json>) -> Result<Option<Self>, Beyond> {
        let keys = ["properties", "required", "additionalProperties"];
        if !keys.iter().any(|key| schema.contains_key(*key)) {
            return Ok(None);
        }
        let mut known = Vec::new();
        if let Some(properties) = schema.get("properties") {
            for (name, property) in properties.as_object().ok_or(Beyond)? {
                known.push((Box::from(name.as_str()), Rule::compile(property)?));
            }
        }
        let open = match schema.get("additionalProperties") {
            None | Some(Json::Bool(true)) => true,
            Some(Json::Bool(false)) => false,
            Some(_) => return Err(Beyond),
        };
        let mut required = 0;
        for name in Self::required(schema)? {
            let name = name.as_str().ok_or(Beyond)?;
            let place = match known.iter().position(|(known, _)| **known == *name) {
                Some(place) => place,
                None if open => {
                    known.push((name.into(), Rule::default()));
                    known.len() - 1
                }
                // Required and forbidden at once: nothing passes, which no rule says.
                None => return Err(Beyond),
            };
            let bit = u32::try_from(place).ok().and_then(|place| 1_u64.checked_shl(place));
            required |= bit.ok_or(Beyond)?;
        }
        Ok(Some(Self { known: known.into(), required, open }))
    }

    fn required(schema: &Map<String, Json>) -> Result<&[Json], Beyond> {
        match schema.get("required") {
            None => Ok(&[]),
            Some(Json::Array(names)) => Ok(names),
            Some(_) => Err(Beyond),
        }
    }

    #[inline]
    fn check(&self, object: Option<Object<'_>>) -> Result<(), Violation> {
        let mut missing = self.required;
        // An optional object is not flattened here: that costs as much as the walk itself.
        if let Some(object) = object {
            for (name, value) in object {
                let mut known = self.known.iter().enumerate();
                match known.find(|(_, (known, _))| **known == *name) {
                    Some((place, (_, rule))) => {
                        rule.check(value).map_err(|inner| at(name, inner))?;
                        if place < 64 {
                            missing &= !(1 << place);
                        }
                    }
                    None if self.open => {}
                    None => return Err(at(name, Violation::unknown())),
                }
            }
        }
        if missing == 0 {
            return Ok(());
        }
        let first = missing.trailing_zeros() as usize;
        Err(at(&self.known[first].0, Violation::missing()))
    }
}

impl Items {
    fn compile(schema: &Map<String, Json>) -> Result<Option<Self>, Beyond> {
        let count = Length::compile(schema, "minItems", "maxItems")?;
        let each = schema.get("items").map(Rule::compile).transpose()?.map(Box::new);
        if count.is_none() && each.is_none() {
            return Ok(None);
        }
        let count = count.unwrap_or(Length::ANY);
        Ok(Some(Self { each, count }))
    }

    fn check(&self, value: Value<'_>) -> Result<(), Violation> {
        let Some(array) = value.as_array() else { return Ok(()) };
        self.count.check(array.len(), "items")?;
        let Some(each) = &self.each else { return Ok(()) };
        for (place, item) in array.iter().enumerate() {
            each.check(item).map_err(|inner| at(&place.to_string(), inner))?;
        }
        Ok(())
    }
}

/// Whether a rule says what this keyword says, or the keyword asserts nothing.
fn is_known(key: &str) -> bool {
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
    // Names parts for `$ref`; without one (which no rule takes) they are not reached.
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
    use serde_json::json;

    use super::*;
    use crate::protocol::json::{Limits, PADDING_BYTES, Parser};

    fn checked(rule: &Rule, value: &Json) -> Result<(), String> {
        let text = value.to_string();
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() + PADDING_BYTES, 0);
        let mut parser = Parser::new(Limits::default());
        let document = parser.parse(&mut bytes, text.len()).unwrap();
        rule.check(document.root()).map_err(|violation| violation.to_string())
    }

    /// Schemas that rules express, and values to hold against all of them.
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
        ]
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
        ]
    }

    #[test]
    fn a_rule_says_what_the_whole_validator_says() {
        for schema in schemas() {
            let rule = Rule::compile(&schema).unwrap();
            let whole = jsonschema::validator_for(&schema).unwrap();
            for value in values() {
                let said = checked(&rule, &value);
                assert_eq!(said.is_ok(), whole.is_valid(&value), "{schema} {value}: {said:?}");
            }
        }
    }

    #[test]
    fn a_schema_that_says_more_has_no_rule() {
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
            assert!(Rule::compile(&schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn a_violation_names_the_place_and_the_remedy() {
        let rule = Rule::compile(&json!({
            "type": "object",
            "properties": {
                "steps": { "type": "integer", "minimum": 1, "maximum": 1000 },
                "names": { "type": "array", "items": { "type": "string", "maxLength": 3 } },
                "mode": { "enum": ["fast", "safe"] },
            },
            "required": ["steps"],
            "additionalProperties": false,
        }));
        let rule = rule.unwrap();
        for (value, said) in [
            (json!({}), "`steps` is missing"),
            (json!({ "steps": 0 }), "`steps` must be at least 1"),
            (json!({ "steps": 1.5 }), "`steps` must be an integer"),
            (
                json!({ "steps": 1, "names": ["a", "long"] }),
                "`names.1` must have at most 3 characters",
            ),
            (json!({ "steps": 1, "mode": "slow" }), "`mode` must be \"fast\" or \"safe\""),
            (json!({ "steps": 1, "extra": 1 }), "`extra` is not known"),
        ] {
            assert_eq!(checked(&rule, &value).unwrap_err(), said);
        }
    }
}
