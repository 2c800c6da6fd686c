//! serde [`Deserializer`] for [`Value`].
//!
//! Invariants: strings are borrowed and no node is cloned; serde rejects a duplicate key of a
//! struct. Map keys are always strings. A type that asks for an integer reads `2.0` as 2; others
//! read the number as it is written.

use super::value::{Array, Items, Members, Object, Value, ValueKind};
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use std::fmt;

/// Error of a value that does not deserialize to the requested type: one human-readable sentence.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeserializeError(Box<str>);

impl fmt::Display for DeserializeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for DeserializeError {}

impl Error for DeserializeError {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string().into())
    }
}

/// Defines the methods for integers, which `2.0` is, too.
macro_rules! deserialize_integers {
    ($($method:ident)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeserializeError> {
            match self.as_whole() {
                Some(number) => visitor.visit_i64(number),
                None => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = DeserializeError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeserializeError> {
        match self.kind() {
            ValueKind::Null => visitor.visit_unit(),
            ValueKind::Boolean => visitor.visit_bool(self.as_bool() == Some(true)),
            ValueKind::Number => match (self.written_u64(), self.written_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(self.as_f64().unwrap_or(f64::NAN)),
            },
            ValueKind::String => visitor.visit_borrowed_str(self.as_str().unwrap_or_default()),
            ValueKind::Array => match self.as_array() {
                Some(array) => visit_array(array, visitor),
                None => visitor.visit_unit(),
            },
            ValueKind::Object => match self.as_object() {
                Some(object) => visit_object(object, visitor),
                None => visitor.visit_unit(),
            },
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeserializeError> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeserializeError> {
        visitor.visit_newtype_struct(self)
    }

    /// A string is a unit variant; an object has one member, the variant and its content.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeserializeError> {
        if let Some(name) = self.as_str() {
            return visitor.visit_enum(BorrowedStrDeserializer::new(name));
        }
        let Some(object) = self.as_object() else {
            return Err(Error::invalid_type(unexpected(self), &"the name of a variant"));
        };
        let mut members = object.iter();
        match (members.next(), members.next()) {
            (Some((name, content)), None) => visitor.visit_enum(Variant { name, content }),
            _ => Err(Error::invalid_value(Unexpected::Map, &"an object with one member")),
        }
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, DeserializeError> {
        visitor.visit_unit()
    }

    deserialize_integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    forward_to_deserialize_any! {
        bool f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        struct identifier
    }
}

impl<'de> IntoDeserializer<'de, DeserializeError> for Value<'de> {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

fn visit_array<'de, V: Visitor<'de>>(
    array: Array<'de>,
    visitor: V,
) -> Result<V::Value, DeserializeError> {
    let mut access = ItemAccess { items: array.iter(), remaining: array.len() };
    let value = visitor.visit_seq(&mut access)?;
    if access.remaining == 0 {
        return Ok(value);
    }
    Err(Error::invalid_length(array.len(), &ArrayLength(array.len() - access.remaining)))
}

fn visit_object<'de, V: Visitor<'de>>(
    object: Object<'de>,
    visitor: V,
) -> Result<V::Value, DeserializeError> {
    visitor.visit_map(MemberAccess {
        members: object.iter(),
        content: None,
        remaining: object.len(),
    })
}

struct ItemAccess<'de> {
    items: Items<'de>,
    remaining: usize,
}

impl<'de> SeqAccess<'de> for ItemAccess<'de> {
    type Error = DeserializeError;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, DeserializeError> {
        let Some(item) = self.items.next() else {
            return Ok(None);
        };
        self.remaining = self.remaining.saturating_sub(1);
        seed.deserialize(item).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.remaining)
    }
}

struct MemberAccess<'de> {
    members: Members<'de>,
    content: Option<Value<'de>>,
    remaining: usize,
}

impl<'de> MapAccess<'de> for MemberAccess<'de> {
    type Error = DeserializeError;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, DeserializeError> {
        let Some((key, content)) = self.members.next() else {
            return Ok(None);
        };
        self.content = Some(content);
        self.remaining = self.remaining.saturating_sub(1);
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, DeserializeError> {
        match self.content.take() {
            Some(content) => seed.deserialize(content),
            None => Err(Error::custom("next_value_seed was called before next_key_seed")),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.remaining)
    }
}

/// An enum variant with content.
struct Variant<'de> {
    name: &'de str,
    content: Value<'de>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = DeserializeError;
    type Variant = Value<'de>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Value<'de>), DeserializeError> {
        Ok((seed.deserialize(BorrowedStrDeserializer::new(self.name))?, self.content))
    }
}

impl<'de> VariantAccess<'de> for Value<'de> {
    type Error = DeserializeError;

    fn unit_variant(self) -> Result<(), DeserializeError> {
        if self.is_null() {
            return Ok(());
        }
        Err(Error::invalid_type(unexpected(self), &"null, or the name of the variant alone"))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<S::Value, DeserializeError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, DeserializeError> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeserializeError> {
        self.deserialize_any(visitor)
    }
}

/// The expected array length in the error of a longer array.
struct ArrayLength(usize);

impl Expected for ArrayLength {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an array of {}", self.0)
    }
}

/// Describes the value for serde's error messages.
fn unexpected(value: Value<'_>) -> Unexpected<'_> {
    match value.kind() {
        ValueKind::Null => Unexpected::Unit,
        ValueKind::Boolean => Unexpected::Bool(value.as_bool() == Some(true)),
        ValueKind::Number => Unexpected::Float(value.as_f64().unwrap_or(f64::NAN)),
        ValueKind::String => Unexpected::Str(value.as_str().unwrap_or_default()),
        ValueKind::Array => Unexpected::Seq,
        ValueKind::Object => Unexpected::Map,
    }
}

#[cfg(test)]
mod tests {
    use crate::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};
    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use std::borrow::Cow;
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase")]
    enum Shape {
        Nothing,
        Round(f64),
        Box(u8, u8),
        Named { width: i32 },
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Everything {
        text: String,
        character: char,
        small: u8,
        negative: i16,
        ratio: f32,
        #[serde(default)]
        absent: Option<u64>,
        list: Vec<Option<bool>>,
        pair: (String, u64),
        map: BTreeMap<String, Shape>,
        any: serde_json::Value,
        unit: (),
    }

    fn padded(text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() + PADDING_BYTES, 0);
        bytes
    }

    /// Deserializes `text` here and with `serde_json`; asserts that both agree.
    fn deserialize_both<T: Debug + DeserializeOwned + PartialEq>(text: &str) -> Option<T> {
        let mut parser = Parser::new(ParseLimits::default());
        let mut bytes = padded(text);
        let document = parser.parse(PaddedText::new(&mut bytes, text.len())).unwrap();
        let ours = T::deserialize(document.root());
        let theirs = serde_json::from_str::<T>(text);
        assert_eq!(ours.as_ref().ok(), theirs.as_ref().ok(), "{text}: {ours:?} {theirs:?}");
        ours.ok()
    }

    #[test]
    fn deserialize_accepts_what_serde_json_accepts() {
        let text = r#"{"text":"a\nb","character":"é","small":255,"negative":-7,"ratio":2.5,
            "list":[true,null,false],"pair":["x",18446744073709551615],"unit":null,
            "map":{"a":"nothing","b":{"round":1},"c":{"box":[1,2]},"d":{"named":{"width":-4}}},
            "any":{"k":[1,-2,0.5,"s",null,true,{}]},"more":{"ignored":[[]]}}"#;
        assert!(deserialize_both::<Everything>(text).is_some());
    }

    #[test]
    fn deserialize_rejects_what_serde_json_rejects() {
        for text in ["256", "-1", "1.5", "\"1\"", "null", "[1]"] {
            assert_eq!(deserialize_both::<u8>(text), None);
        }
        for text in ["[1,2,3]", "[1]", "{}", "1"] {
            assert_eq!(deserialize_both::<(u8, u8)>(text), None);
        }
        let shapes =
            [r#""unknown""#, r#""round""#, r#"{"nothing":1}"#, r#"{"round":1,"box":[1,2]}"#, "{}"];
        for text in shapes {
            assert_eq!(deserialize_both::<Shape>(text), None);
        }
        assert_eq!(deserialize_both::<Shape>(r#"{"nothing":null}"#), Some(Shape::Nothing));
        assert_eq!(deserialize_both::<bool>("1"), None);
        assert_eq!(deserialize_both::<String>("1"), None);
        assert_eq!(deserialize_both::<char>("\"ab\""), None);
    }

    #[test]
    fn deserialize_reads_whole_number_as_integer() {
        fn read<T: DeserializeOwned>(text: &str) -> Option<T> {
            let mut parser = Parser::new(ParseLimits::default());
            let mut bytes = padded(text);
            let document = parser.parse(PaddedText::new(&mut bytes, text.len())).unwrap();
            T::deserialize(document.root()).ok()
        }
        assert_eq!(read::<u8>("2.0"), Some(2));
        assert_eq!(read::<i64>("-2e3"), Some(-2000));
        assert_eq!(read::<u64>("-0.0"), Some(0));
        assert_eq!(read::<u128>("9007199254740991.0"), Some(9_007_199_254_740_991));
        assert_eq!(
            read::<Vec<Option<u16>>>("[1e3,null,7.0]"),
            Some(vec![Some(1000), None, Some(7)])
        );
        assert_eq!(read::<Shape>(r#"{"named":{"width":4.0}}"#), Some(Shape::Named { width: 4 }));
        assert_eq!(
            read::<(u64, f64)>("[9007199254740993,2.0]"),
            Some((9_007_199_254_740_993, 2.0))
        );
        assert_eq!(read::<serde_json::Value>("2.0"), Some(serde_json::json!(2.0)));
        // A larger one may have lost digits.
        for text in ["9007199254740993.0", "1e16", "2.5", "-1e0", "256.0"] {
            assert_eq!(read::<u8>(text), None, "{text}");
        }
        assert_eq!(read::<u64>("9007199254740993.0"), None);
    }

    #[test]
    fn deserialize_duplicate_struct_key_is_rejected() {
        #[derive(Debug, Deserialize, PartialEq)]
        struct One {
            a: u8,
        }
        assert_eq!(deserialize_both::<One>(r#"{"a":1,"a":1}"#), None);
        assert_eq!(deserialize_both::<One>(r#"{"a":1,"b":1,"b":2}"#), Some(One { a: 1 }));
    }

    #[test]
    fn deserialize_borrows_strings_from_input() {
        #[derive(Deserialize)]
        struct Borrowed<'a> {
            plain: &'a str,
            #[serde(borrow)]
            escaped: Cow<'a, str>,
        }
        let text = r#"{"plain":"x","escaped":"a\tb"}"#;
        let mut parser = Parser::new(ParseLimits::default());
        let mut bytes = padded(text);
        let document = parser.parse(PaddedText::new(&mut bytes, text.len())).unwrap();
        let read = Borrowed::deserialize(document.root()).unwrap();
        assert_eq!((read.plain, &*read.escaped), ("x", "a\tb"));
        assert!(matches!(read.escaped, Cow::Borrowed(_)));
    }
}
