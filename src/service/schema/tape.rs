//! Adapter from parsed messages to the `jsonschema` crate, which validates them in place.
//!
//! Owned JSON is created only for values that are compared as a whole (`enum` of objects,
//! `uniqueItems`) and for error messages. Of duplicate keys the last one counts, as everywhere in
//! arguments.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::HashMap;

use corelane_protocol::json::{self, Items, Members, Value, ValueKind};
use jsonschema::JsonType;
use jsonschema::json::{Array, Json, JsonNumber, Node, NodeIdentity, Object};
use serde_json::{Number, Value as Owned};

/// The JSON representation of parsed messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tape;

/// A value to validate.
#[derive(Clone, Copy, Debug)]
pub(super) enum TapeNode<'a> {
    /// Absent arguments: an empty object.
    Absent,
    /// The name of a member, for `propertyNames`.
    Name(&'a str),
    /// A value of the message.
    Value(Value<'a>),
}

impl Json for Tape {
    type Node<'a> = TapeNode<'a>;
    type PreparedKey = Box<str>;
    type StringBuffer = ();

    /// Lookup scans the members, so that preparing keys has no benefit.
    const KEYS_PER_LOOKUP: usize = 1;

    fn prepare_key(key: &str) -> Box<str> {
        key.into()
    }

    fn with_string_node<T>((): &mut (), name: &str, visit: impl FnOnce(TapeNode<'_>) -> T) -> T {
        visit(TapeNode::Name(name))
    }
}

impl<'a> Node<'a, Tape> for TapeNode<'a> {
    type Object = TapeObject<'a>;
    type Array = TapeArray<'a>;
    type Number = TapeNumber<'a>;

    fn as_object(&self) -> Option<TapeObject<'a>> {
        match self {
            Self::Absent => Some(TapeObject::new(None)),
            Self::Name(_) => None,
            Self::Value(value) => value.as_object().map(|object| TapeObject::new(Some(object))),
        }
    }

    fn as_array(&self) -> Option<TapeArray<'a>> {
        match self {
            Self::Value(value) => value.as_array().map(TapeArray),
            Self::Absent | Self::Name(_) => None,
        }
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Absent => None,
            Self::Name(name) => Some(Cow::Borrowed(name)),
            Self::Value(value) => value.as_str().map(Cow::Borrowed),
        }
    }

    fn as_number(&self) -> Option<TapeNumber<'a>> {
        match self {
            Self::Value(value) if value.kind() == ValueKind::Number => Some(TapeNumber(*value)),
            _ => None,
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        match self {
            Self::Value(value) => value.as_bool(),
            Self::Absent | Self::Name(_) => None,
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Self::Value(value) if value.is_null())
    }

    fn json_type(&self) -> JsonType {
        match self {
            Self::Absent => JsonType::Object,
            Self::Name(_) => JsonType::String,
            Self::Value(value) => match value.kind() {
                ValueKind::Array => JsonType::Array,
                ValueKind::Boolean => JsonType::Boolean,
                ValueKind::Null => JsonType::Null,
                ValueKind::Number => JsonType::Number,
                ValueKind::Object => JsonType::Object,
                ValueKind::String => JsonType::String,
            },
        }
    }

    fn to_value(&self) -> Cow<'a, Owned> {
        Cow::Owned(match self {
            Self::Absent => Owned::Object(serde_json::Map::new()),
            Self::Name(name) => Owned::from(*name),
            Self::Value(value) => value.to_json(),
        })
    }

    fn identity(&self) -> Option<NodeIdentity> {
        let address = match self {
            Self::Absent => 0,
            Self::Name(name) => name.as_ptr().addr(),
            Self::Value(value) => value.address(),
        };
        Some(NodeIdentity::new(address))
    }
}

/// The members of an object. The first lookups scan them; the next one in an object with many
/// members creates a map of all, so that the cost of lookups is linear.
#[derive(Clone, Debug)]
pub(super) struct TapeObject<'a> {
    /// `None` for absent arguments.
    object: Option<json::Object<'a>>,
    scans: Cell<u8>,
    by_name: OnceCell<HashMap<&'a str, Value<'a>>>,
}

impl<'a> TapeObject<'a> {
    const fn new(object: Option<json::Object<'a>>) -> Self {
        Self { object, scans: Cell::new(0), by_name: OnceCell::new() }
    }
}

impl<'a> Object<'a, Tape> for TapeObject<'a> {
    type Node = TapeNode<'a>;
    type MemberName = &'a str;
    type MembersIter = TapeMembers<'a>;

    fn len(&self) -> usize {
        self.object.map_or(0, json::Object::len)
    }

    fn get(&self, key: &Box<str>) -> Option<TapeNode<'a>> {
        let object = self.object?;
        if object.len() <= MEMBERS_SCANNED_MAX {
            return object.find(key).map(TapeNode::Value);
        }
        if self.scans.get() < SCANS_MAX {
            self.scans.set(self.scans.get() + 1);
            return object.find(key).map(TapeNode::Value);
        }
        // Of duplicate keys the last one is kept.
        let by_name = self.by_name.get_or_init(|| object.iter().collect());
        by_name.get(&**key).copied().map(TapeNode::Value)
    }

    fn members(&self) -> TapeMembers<'a> {
        TapeMembers(self.object.map(json::Object::iter))
    }
}

/// Iterates over the members of an object.
#[derive(Clone, Debug)]
pub(super) struct TapeMembers<'a>(Option<Members<'a>>);

impl<'a> Iterator for TapeMembers<'a> {
    type Item = (&'a str, TapeNode<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.0.as_mut()?.next()?;
        Some((name, TapeNode::Value(value)))
    }
}

/// The items of an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct TapeArray<'a>(json::Array<'a>);

impl<'a> Array<'a, Tape> for TapeArray<'a> {
    type Node = TapeNode<'a>;
    type ElementsIter = TapeItems<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> TapeItems<'a> {
        TapeItems(self.0.iter())
    }
}

/// Iterates over the items of an array.
#[derive(Clone, Debug)]
pub(super) struct TapeItems<'a>(Items<'a>);

impl<'a> Iterator for TapeItems<'a> {
    type Item = TapeNode<'a>;

    fn next(&mut self) -> Option<TapeNode<'a>> {
        self.0.next().map(TapeNode::Value)
    }
}

/// A number of the message.
#[derive(Clone, Copy, Debug)]
pub(super) struct TapeNumber<'a>(Value<'a>);

impl JsonNumber for TapeNumber<'_> {
    fn as_u64(&self) -> Option<u64> {
        self.0.written_u64()
    }

    fn as_i64(&self) -> Option<i64> {
        self.0.written_i64()
    }

    fn as_f64(&self) -> Option<f64> {
        self.0.as_f64()
    }

    fn as_str(&self) -> Cow<'_, str> {
        Cow::Owned(self.to_number().to_string())
    }

    fn to_number(&self) -> Cow<'_, Number> {
        let number = match (self.0.written_i64(), self.0.written_u64()) {
            (Some(integer), _) => integer.into(),
            (None, Some(integer)) => integer.into(),
            // JSON has neither infinity nor NaN.
            (None, None) => self.0.as_f64().and_then(Number::from_f64).unwrap_or_else(|| 0.into()),
        };
        Cow::Owned(number)
    }

    fn is_integer(&self) -> bool {
        self.0.as_f64().is_some_and(|number| number.fract() == 0.0)
    }

    fn is_written_as_integer(&self) -> bool {
        self.0.written_i64().is_some() || self.0.written_u64().is_some()
    }
}

/// Members of an object up to which every lookup scans them.
const MEMBERS_SCANNED_MAX: usize = 64;

/// Lookups in a larger object that scan its members. A map costs as much as about as many.
const SCANS_MAX: u8 = 16;

#[cfg(test)]
mod tests {
    use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};

    use super::*;

    #[test]
    fn every_lookup_returns_the_last_duplicate() {
        for count in [3, MEMBERS_SCANNED_MAX, MEMBERS_SCANNED_MAX + 1, 1000] {
            let others: Vec<_> = (2..count).map(|index| format!(r#""{index}":0,"#)).collect();
            let text = format!(r#"{{"a":1,{}"a":2}}"#, others.concat());
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(text.len() + PADDING_BYTES, 0);
            let mut parser = Parser::new(ParseLimits::default());
            let document = parser.parse(PaddedText::new(&mut bytes, text.len())).unwrap();
            let object = TapeNode::Value(document.root()).as_object().unwrap();
            assert_eq!(object.len(), count);
            let (last, absent) = (Tape::prepare_key("a"), Tape::prepare_key("b"));
            for _ in 0..2 * SCANS_MAX {
                let found = object.get(&last).and_then(|value| value.as_number());
                assert_eq!(found.and_then(|number| number.as_u64()), Some(2));
                assert!(object.get(&absent).is_none());
            }
        }
    }
}
