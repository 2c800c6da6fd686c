//! What a value may be: of which kinds, and one of which values.
//!
//! What it keeps true: a value is compared where it lies in the message. Values with parts are not
//! chosen among here.

use serde_json::{Map, Value as Json};

use super::Beyond;
use super::bounds::exact;
use crate::protocol::json::{Kind, Value};

/// Kinds as bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Kinds(u8);

/// A value without parts.
#[derive(Clone, Debug)]
pub(super) enum Scalar {
    Boolean(bool),
    Null,
    Number(f64),
    Text(Box<str>),
}

impl Kinds {
    const ARRAY: u8 = 1;
    const BOOLEAN: u8 = 1 << 1;
    const INTEGER: u8 = 1 << 2;
    const NULL: u8 = 1 << 3;
    const NUMBER: u8 = 1 << 4;
    const OBJECT: u8 = 1 << 5;
    const STRING: u8 = 1 << 6;
    /// Keyword, bit, and how a sentence says it.
    const NAMES: [(&'static str, u8, &'static str); 7] = [
        ("array", Self::ARRAY, "an array"),
        ("boolean", Self::BOOLEAN, "true or false"),
        ("integer", Self::INTEGER, "an integer"),
        ("null", Self::NULL, "null"),
        ("number", Self::NUMBER, "a number"),
        ("object", Self::OBJECT, "an object"),
        ("string", Self::STRING, "a string"),
    ];

    pub(super) fn read(named: &Json) -> Result<Self, Beyond> {
        let bit = |name: &Json| {
            let known = Self::NAMES.iter().find(|(known, ..)| name.as_str() == Some(known));
            known.map(|(_, bit, _)| *bit).ok_or(Beyond)
        };
        match named {
            Json::Array(several) => {
                several.iter().try_fold(0, |kinds, name| Ok(kinds | bit(name)?)).map(Self)
            }
            name => bit(name).map(Self),
        }
    }

    #[inline]
    pub(super) fn admit(self, value: Value<'_>) -> bool {
        let bit = match value.kind() {
            Kind::Array => Self::ARRAY,
            Kind::Boolean => Self::BOOLEAN,
            Kind::Null => Self::NULL,
            Kind::Object => Self::OBJECT,
            Kind::String => Self::STRING,
            Kind::Number if self.0 & Self::NUMBER != 0 => return true,
            Kind::Number => {
                let is_whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
                return self.0 & Self::INTEGER != 0 && is_whole;
            }
        };
        self.0 & bit != 0
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let named = Self::NAMES.iter().filter(move |(_, bit, _)| self.0 & bit != 0);
        named.map(|(.., said)| *said)
    }
}

impl Scalar {
    pub(super) fn compile(value: &Json) -> Result<Self, Beyond> {
        match value {
            Json::Null => Ok(Self::Null),
            Json::Bool(truth) => Ok(Self::Boolean(*truth)),
            Json::Number(_) => exact(value).map(Self::Number),
            Json::String(text) => Ok(Self::Text(text.as_str().into())),
            Json::Array(_) | Json::Object(_) => Err(Beyond),
        }
    }

    #[inline]
    pub(super) fn is(&self, value: Value<'_>) -> bool {
        match self {
            Self::Boolean(truth) => value.as_bool() == Some(*truth),
            Self::Null => value.is_null(),
            Self::Number(number) => value.as_f64() == Some(*number),
            Self::Text(text) => value.as_str() == Some(text),
        }
    }

    pub(super) fn spell(&self) -> String {
        match self {
            Self::Boolean(truth) => truth.to_string(),
            Self::Null => String::from("null"),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format!("\"{text}\""),
        }
    }
}

/// The values of `enum` and `const`; fails where one of them has parts.
pub(super) fn compile_choices(schema: &Map<String, Json>) -> Result<Option<Box<[Scalar]>>, Beyond> {
    match (schema.get("enum"), schema.get("const")) {
        (None, None) => Ok(None),
        (Some(Json::Array(values)), None) => {
            values.iter().map(Scalar::compile).collect::<Result<_, _>>().map(Some)
        }
        (None, Some(value)) => Scalar::compile(value).map(|only| Some([only].into())),
        _ => Err(Beyond),
    }
}
