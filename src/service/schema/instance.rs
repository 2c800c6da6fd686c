//! Adapter from JSON values to the `jsonschema` crate, which validates them in place: the arguments
//! of a parsed message, and the structured result of a handler. One adapter for both, since the
//! crate is compiled once for each.
//!
//! Owned JSON is created only for parsed values that are compared as a whole (`enum` of objects,
//! `uniqueItems`) and for error messages. Of duplicate keys the last one counts, as everywhere in
//! arguments.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::{ptr, slice};

use corelane_protocol::json::{self, Items, Members, Value, ValueKind};
use jsonschema::JsonType;
use jsonschema::json::{Array, Json, JsonNumber, Node, NodeIdentity, Object};
use serde_json::{Map, Number, Value as Owned, map};

/// The JSON representation whose values are [`Instance`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Instances;

/// A value to validate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Instance<'a> {
    /// Absent arguments: an empty object.
    Absent,
    /// The name of a member, for `propertyNames`.
    Name(&'a str),
    /// A value of a message.
    Parsed(Value<'a>),
    /// A value of a result.
    Owned(&'a Owned),
}

impl Json for Instances {
    type Node<'a> = Instance<'a>;
    type PreparedKey = Box<str>;
    type StringBuffer = ();

    /// Lookup in a parsed object scans the members, so that preparing keys has no benefit.
    const KEYS_PER_LOOKUP: usize = 1;

    fn prepare_key(key: &str) -> Box<str> {
        key.into()
    }

    fn with_string_node<T>(_unit: &mut (), name: &str, visit: impl FnOnce(Instance<'_>) -> T) -> T {
        visit(Instance::Name(name))
    }
}

impl<'a> Node<'a, Instances> for Instance<'a> {
    type Object = InstanceObject<'a>;
    type Array = InstanceArray<'a>;
    type Number = InstanceNumber<'a>;

    fn as_object(&self) -> Option<InstanceObject<'a>> {
        match self {
            Self::Absent => Some(InstanceObject::Empty),
            Self::Name(_) => None,
            Self::Parsed(value) => {
                value.as_object().map(|object| InstanceObject::Parsed(ParsedObject::new(object)))
            }
            Self::Owned(value) => value.as_object().map(InstanceObject::Owned),
        }
    }

    fn as_array(&self) -> Option<InstanceArray<'a>> {
        match self {
            Self::Absent | Self::Name(_) => None,
            Self::Parsed(value) => value.as_array().map(InstanceArray::Parsed),
            Self::Owned(value) => value.as_array().map(InstanceArray::Owned),
        }
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Absent => None,
            Self::Name(name) => Some(Cow::Borrowed(name)),
            Self::Parsed(value) => value.as_str().map(Cow::Borrowed),
            Self::Owned(value) => value.as_str().map(Cow::Borrowed),
        }
    }

    fn as_number(&self) -> Option<InstanceNumber<'a>> {
        match self {
            Self::Parsed(value) if value.kind() == ValueKind::Number => {
                Some(InstanceNumber::Parsed(*value))
            }
            Self::Owned(Owned::Number(number)) => Some(InstanceNumber::Owned(number)),
            _ => None,
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        match self {
            Self::Absent | Self::Name(_) => None,
            Self::Parsed(value) => value.as_bool(),
            Self::Owned(value) => value.as_bool(),
        }
    }

    fn is_null(&self) -> bool {
        match self {
            Self::Absent | Self::Name(_) => false,
            Self::Parsed(value) => value.is_null(),
            Self::Owned(value) => value.is_null(),
        }
    }

    fn json_type(&self) -> JsonType {
        match self {
            Self::Absent => JsonType::Object,
            Self::Name(_) => JsonType::String,
            Self::Parsed(value) => match value.kind() {
                ValueKind::Array => JsonType::Array,
                ValueKind::Boolean => JsonType::Boolean,
                ValueKind::Null => JsonType::Null,
                ValueKind::Number => JsonType::Number,
                ValueKind::Object => JsonType::Object,
                ValueKind::String => JsonType::String,
            },
            Self::Owned(value) => match value {
                Owned::Array(_) => JsonType::Array,
                Owned::Bool(_) => JsonType::Boolean,
                Owned::Null => JsonType::Null,
                Owned::Number(_) => JsonType::Number,
                Owned::Object(_) => JsonType::Object,
                Owned::String(_) => JsonType::String,
            },
        }
    }

    fn to_value(&self) -> Cow<'a, Owned> {
        match self {
            Self::Absent => Cow::Owned(Owned::Object(Map::new())),
            Self::Name(name) => Cow::Owned(Owned::from(*name)),
            Self::Parsed(value) => Cow::Owned(value.to_json()),
            Self::Owned(value) => Cow::Borrowed(value),
        }
    }

    fn identity(&self) -> Option<NodeIdentity> {
        let address = match self {
            Self::Absent => 0,
            Self::Name(name) => name.as_ptr().addr(),
            Self::Parsed(value) => value.address(),
            Self::Owned(value) => ptr::from_ref(*value).addr(),
        };
        Some(NodeIdentity::new(address))
    }
}

/// The members of an object.
#[derive(Clone, Debug)]
pub(super) enum InstanceObject<'a> {
    /// Absent arguments.
    Empty,
    /// In a message.
    Parsed(ParsedObject<'a>),
    /// In a result.
    Owned(&'a Map<String, Owned>),
}

impl<'a> Object<'a, Instances> for InstanceObject<'a> {
    type Node = Instance<'a>;
    type MemberName = &'a str;
    type MembersIter = InstanceMembers<'a>;

    fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Parsed(parsed) => parsed.object.len(),
            Self::Owned(members) => Map::len(members),
        }
    }

    fn get(&self, key: &Box<str>) -> Option<Instance<'a>> {
        match self {
            Self::Empty => None,
            Self::Parsed(parsed) => parsed.find(key).map(Instance::Parsed),
            Self::Owned(members) => Map::get(members, &**key).map(Instance::Owned),
        }
    }

    fn members(&self) -> InstanceMembers<'a> {
        match self {
            Self::Empty => InstanceMembers::Empty,
            Self::Parsed(parsed) => InstanceMembers::Parsed(parsed.object.iter()),
            Self::Owned(members) => InstanceMembers::Owned(members.iter()),
        }
    }
}

/// An object of a message. The first lookups scan its members; the next one in an object with many
/// members creates a map of all, so that the cost of lookups is linear.
#[derive(Clone, Debug)]
pub(super) struct ParsedObject<'a> {
    object: json::Object<'a>,
    scans: Cell<u8>,
    by_name: OnceCell<HashMap<&'a str, Value<'a>>>,
}

impl<'a> ParsedObject<'a> {
    const fn new(object: json::Object<'a>) -> Self {
        Self { object, scans: Cell::new(0), by_name: OnceCell::new() }
    }

    /// The member of that name; the last one, if there are several.
    fn find(&self, name: &str) -> Option<Value<'a>> {
        if self.object.len() <= MEMBERS_SCANNED_MAX {
            return self.object.find(name);
        }
        if self.scans.get() < SCANS_MAX {
            self.scans.set(self.scans.get() + 1);
            return self.object.find(name);
        }
        // Of duplicate keys the last one is kept.
        self.by_name.get_or_init(|| self.object.iter().collect()).get(name).copied()
    }
}

/// Iterates over the members of an object.
#[derive(Clone, Debug)]
pub(super) enum InstanceMembers<'a> {
    /// Of absent arguments.
    Empty,
    /// In a message.
    Parsed(Members<'a>),
    /// In a result.
    Owned(map::Iter<'a>),
}

impl<'a> Iterator for InstanceMembers<'a> {
    type Item = (&'a str, Instance<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Empty => None,
            Self::Parsed(members) => {
                members.next().map(|(name, value)| (name, Instance::Parsed(value)))
            }
            Self::Owned(members) => {
                members.next().map(|(name, value)| (name.as_str(), Instance::Owned(value)))
            }
        }
    }
}

/// The items of an array.
#[derive(Clone, Copy, Debug)]
pub(super) enum InstanceArray<'a> {
    /// In a message.
    Parsed(json::Array<'a>),
    /// In a result.
    Owned(&'a [Owned]),
}

impl<'a> Array<'a, Instances> for InstanceArray<'a> {
    type Node = Instance<'a>;
    type ElementsIter = InstanceItems<'a>;

    fn len(&self) -> usize {
        match self {
            Self::Parsed(array) => array.len(),
            Self::Owned(items) => <[Owned]>::len(items),
        }
    }

    fn elements(&self) -> InstanceItems<'a> {
        match self {
            Self::Parsed(array) => InstanceItems::Parsed(array.iter()),
            Self::Owned(items) => InstanceItems::Owned(items.iter()),
        }
    }
}

/// Iterates over the items of an array.
#[derive(Clone, Debug)]
pub(super) enum InstanceItems<'a> {
    /// In a message.
    Parsed(Items<'a>),
    /// In a result.
    Owned(slice::Iter<'a, Owned>),
}

impl<'a> Iterator for InstanceItems<'a> {
    type Item = Instance<'a>;

    fn next(&mut self) -> Option<Instance<'a>> {
        match self {
            Self::Parsed(items) => items.next().map(Instance::Parsed),
            Self::Owned(items) => items.next().map(Instance::Owned),
        }
    }
}

/// A number.
#[derive(Clone, Copy, Debug)]
pub(super) enum InstanceNumber<'a> {
    /// In a message.
    Parsed(Value<'a>),
    /// In a result.
    Owned(&'a Number),
}

impl JsonNumber for InstanceNumber<'_> {
    fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Parsed(value) => value.written_u64(),
            Self::Owned(number) => number.as_u64(),
        }
    }

    fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Parsed(value) => value.written_i64(),
            Self::Owned(number) => number.as_i64(),
        }
    }

    fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Parsed(value) => value.as_f64(),
            Self::Owned(number) => number.as_f64(),
        }
    }

    fn as_str(&self) -> Cow<'_, str> {
        Cow::Owned(self.to_number().to_string())
    }

    fn to_number(&self) -> Cow<'_, Number> {
        let value = match self {
            Self::Parsed(value) => value,
            Self::Owned(number) => return Cow::Borrowed(number),
        };
        let number = match (value.written_i64(), value.written_u64()) {
            (Some(integer), _) => integer.into(),
            (None, Some(integer)) => integer.into(),
            // JSON has neither infinity nor NaN.
            (None, None) => value.as_f64().and_then(Number::from_f64).unwrap_or_else(|| 0.into()),
        };
        Cow::Owned(number)
    }

    fn is_integer(&self) -> bool {
        match self {
            Self::Parsed(value) => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Self::Owned(number) => number.is_integer(),
        }
    }

    fn is_written_as_integer(&self) -> bool {
        match self {
            Self::Parsed(value) => value.written_i64().is_some() || value.written_u64().is_some(),
            Self::Owned(number) => number.is_written_as_integer(),
        }
    }
}

/// Members of an object up to which every lookup scans them.
const MEMBERS_SCANNED_MAX: usize = 64;

/// Lookups in a larger object that scan its members. A map costs as much as about as many.
const SCANS_MAX: u8 = 16;

#[cfg(test)]
mod tests {
    use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};
    use serde_json::json;

    use super::*;
    use crate::service::schema::build;

    #[test]
    fn every_lookup_returns_the_last_duplicate() {
        for count in [3, MEMBERS_SCANNED_MAX, MEMBERS_SCANNED_MAX + 1, 1000] {
            let others: Vec<_> = (2..count).map(|index| format!(r#""{index}":0,"#)).collect();
            let text = format!(r#"{{"a":1,{}"a":2}}"#, others.concat());
            with_parsed(&text, |parsed| {
                let object = parsed.as_object().unwrap();
                assert_eq!(object.len(), count);
                let (last, absent) = (Instances::prepare_key("a"), Instances::prepare_key("b"));
                for _ in 0..2 * SCANS_MAX {
                    let found = object.get(&last).and_then(|value| value.as_number());
                    assert_eq!(found.and_then(|number| number.as_u64()), Some(2));
                    assert!(object.get(&absent).is_none());
                }
            });
        }
    }

    #[test]
    fn owned_and_parsed_values_are_judged_alike() {
        let schemas = [
            json!({"type": "integer"}),
            json!({"type": ["null", "boolean"]}),
            json!({"const": 1}),
            json!({"enum": [{"a": 1.0}, [1], "text", u64::MAX]}),
            json!({"multipleOf": 0.5, "exclusiveMaximum": 2}),
            json!({"minLength": 2, "pattern": "^t"}),
            json!({"propertyNames": {"maxLength": 1}}),
            json!({"patternProperties": {"^a": {"type": "number"}}}),
            json!({"properties": {"a": {"const": 1}}, "unevaluatedProperties": false}),
            json!({"required": ["a"], "minProperties": 1}),
            json!({"uniqueItems": true, "contains": {"const": 1}}),
            json!({"prefixItems": [{"type": "integer"}], "unevaluatedItems": false}),
        ];
        let values = [
            json!(null),
            json!(true),
            json!(1),
            json!(1.0),
            json!(1.5),
            json!(-3),
            json!(u64::MAX),
            json!(1e300),
            json!("t"),
            json!("text"),
            json!("ä"),
            json!([]),
            json!([1]),
            json!([1, 1.0]),
            json!([1.5]),
            json!([{"a": 1}, {"a": 1}]),
            json!({}),
            json!({"a": 1}),
            json!({"a": "b"}),
            json!({"ab": 1}),
            json!({"b": null}),
        ];
        for schema in &schemas {
            let ours = build(schema).unwrap();
            let theirs = jsonschema::validator_for(schema).unwrap();
            for value in &values {
                let expected = theirs.validate(value).map_err(|error| error.to_string());
                let owned = ours.validate(Instance::Owned(value));
                assert_eq!(owned.map_err(|error| error.to_string()), expected, "{schema}");
                with_parsed(&value.to_string(), |parsed| {
                    assert_eq!(ours.is_valid(parsed), expected.is_ok(), "{schema} {value}");
                });
            }
        }
    }

    fn with_parsed(text: &str, visit: impl FnOnce(Instance<'_>)) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() + PADDING_BYTES, 0);
        let mut parser = Parser::new(ParseLimits::default());
        let document = parser.parse(PaddedText::new(&mut bytes, text.len())).unwrap();
        visit(Instance::Parsed(document.root()));
    }
}
