//! `_meta` of a result.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use corelane_protocol::json::{self, SourcePlace};

/// The members of `_meta`, which are read when they are used: most callers use none, and servers of
/// 2026-07-28 send some with each result.
#[derive(Clone)]
pub struct MetaObject(Arc<str>);

/// The bytes that most objects take.
const TEXT_BYTES: usize = 128;

impl MetaObject {
    /// Returns the object as text, or `None` if `value` is no object.
    fn read(value: json::Value<'_>) -> Option<Self> {
        let mut text = Vec::with_capacity(TEXT_BYTES);
        value.as_object()?;
        value.write(&mut text);
        Some(Self(String::from_utf8(text).ok()?.into()))
    }

    /// Returns the member `key` as a `T`, or `None` without one of that shape.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_value(self.members().remove(key)?).ok()
    }

    /// Reads all members. Cost: that of parsing the text.
    pub fn members(&self) -> Map<String, Value> {
        serde_json::from_str(self.as_json()).unwrap_or_default()
    }

    /// Returns the JSON text of the object.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

/// Reads `_meta` of results. A server often sends the same with each result: it is stored once.
#[derive(Debug, Default)]
pub struct MetaReader {
    /// The last one of a short message.
    last: Option<MetaObject>,
}

impl MetaReader {
    /// Reads the object, or returns `None` if `value` is no object. `source` is the text of the
    /// message, and where it was parsed if it is short.
    pub(super) fn read(
        &mut self,
        value: json::Value<'_>,
        source: (Option<SourcePlace>, &[u8]),
    ) -> Option<MetaObject> {
        let (Some(place), text) = source else { return MetaObject::read(value) };
        if let Some(last) = &self.last
            && place.is_written_as(value, text, last.as_json().as_bytes())
        {
            return Some(last.clone());
        }
        let meta = MetaObject::read(value)?;
        self.last = Some(meta.clone());
        Some(meta)
    }
}

impl PartialEq for MetaObject {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json() || self.members() == other.members()
    }
}

impl fmt::Debug for MetaObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("MetaObject").field(&self.as_json()).finish()
    }
}

impl<'de> Deserialize<'de> for MetaObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Arc::<str>::from(Box::<str>::from(Box::<RawValue>::deserialize(deserializer)?));
        let is_object = text.starts_with('{');
        if is_object { Ok(Self(text)) } else { Err(D::Error::custom("_meta is not an object")) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::CallToolResult;

    #[test]
    fn meta_members_are_read_by_key() {
        let text = r#"{"content": [], "_meta": {"a": {"b": 1}, "c": "d"}}"#;
        let result: CallToolResult = serde_json::from_str(text).unwrap();
        let meta = result.meta.unwrap();
        assert_eq!(meta.get::<Value>("a"), Some(json!({ "b": 1 })));
        assert_eq!(meta.get::<String>("c").as_deref(), Some("d"));
        assert_eq!((meta.get::<u64>("c"), meta.get::<Value>("e")), (None, None));
        let same: CallToolResult =
            serde_json::from_value(json!({ "_meta": { "c": "d", "a": { "b": 1 } } })).unwrap();
        assert_eq!(same.meta, Some(meta));
    }

    #[test]
    fn meta_that_is_no_object_is_invalid() {
        let error = serde_json::from_str::<CallToolResult>(r#"{"_meta": 7}"#).unwrap_err();
        assert!(error.to_string().contains("_meta is not an object"), "{error}");
        let absent: CallToolResult = serde_json::from_str(r#"{"_meta": null}"#).unwrap();
        assert_eq!(absent.meta, None);
    }
}
